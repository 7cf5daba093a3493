/** Queues, their gates and workers, in words for people. */

import {
  type QueueGateReport,
  type QueueReport,
  type QueueWorker,
  type QueueStop,
  type QueueSummary,
  settingWords,
} from "@waybill/postgres";
import { instant } from "./job-words.ts";
import { type Output, shown } from "./output.ts";

const because = (reason: string | null): string => (reason === null ? "" : `: ${shown(reason)}`);

/** What keeps it, in words; empty: nothing. */
function stopWords(stop: QueueStop): string {
  const { pausedAt, pausedBy, pauseReason, closedUntil, closedReason } = stop;
  return [
    ...(pausedAt === null
      ? []
      : [
          `paused since ${instant(pausedAt)} by ${shown(pausedBy ?? "somebody")}${because(pauseReason)}`,
        ]),
    ...(closedUntil === null
      ? []
      : [`closed until ${instant(closedUntil)}${because(closedReason)}`]),
  ].join("; ");
}

function stateOf(output: Output, queue: QueueSummary): string {
  if (queue.pausedAt !== null) return output.paint("warning", "paused");
  if (queue.closedUntil !== null) return output.paint("warning", "closed");
  const parts = [
    ...(queue.pausedTypes === 0 ? [] : [`${queue.pausedTypes} types paused`]),
    ...(queue.pausedKeys === 0 ? [] : [`${queue.pausedKeys} keys paused`]),
  ];
  return parts.length === 0 ? "open" : output.paint("warning", parts.join(", "));
}

const kindOf = ({ governed }: QueueSummary): string => (governed ? "governed" : "pass-through");

const settingLines = (queue: QueueSummary): readonly (readonly [string, string])[] =>
  Object.entries(queue.settings).map(([name, value]) => [
    name,
    settingWords(value as QueueSummary["settings"]["rate"]) +
      (name in queue.overrides ? " (set by an operator)" : ""),
  ]);

/** The table of `queue list`. */
export function printQueues(output: Output, queues: readonly QueueSummary[]): void {
  output.table(
    ["queue", "kind", "state", "waiting", "dispatched", "blocked", "workers", "capacity", "limits"],
    queues.map((queue) => [
      queue.name,
      kindOf(queue),
      stateOf(output, queue),
      String(queue.waiting),
      String(queue.dispatched),
      String(queue.blocked),
      String(queue.workers),
      queue.capacity === null ? "" : String(queue.capacity),
      Object.entries(queue.settings)
        .map(([name, value]) =>
          name === "concurrency" || name === "rate"
            ? `${name} ${settingWords(value as QueueSummary["settings"]["rate"])}`
            : name,
        )
        .join(", "),
    ]),
  );
}

const gateWords = (gate: QueueGateReport): string =>
  [...(gate.tier === null ? [] : [`tier ${gate.tier}`]), stopWords(gate)]
    .filter((part) => part !== "")
    .join("; ");

function shareWords({ concurrency, granted, held }: QueueWorker): string {
  if (concurrency === null) return "";
  if (granted === null) return `runs up to ${concurrency}`;
  return `runs up to ${concurrency}, share ${granted}${held === granted ? "" : `, uses ${held ?? 0}`}`;
}

/** The lines of `queue show`. */
export function printQueue(output: Output, queue: QueueReport): void {
  const lines: readonly (readonly [string, string])[] = [
    ["queue", queue.name],
    ["kind", kindOf(queue)],
    ["state", stopWords(queue) || "open"],
    ...settingLines(queue),
    ...Object.entries(queue.overrides)
      .filter(([, value]) => value === null)
      .map(([name]) => [name, "none (set by an operator)"] as const),
    ["waiting", String(queue.waiting)],
    ["dispatched", String(queue.dispatched)],
    ["blocked keys", String(queue.blocked)],
    ...queue.gates.map((gate) => [`${gate.kind} ${shown(gate.name)}`, gateWords(gate)] as const),
    ...queue.shares.map((share) => [`worker ${shown(share.name)}`, shareWords(share)] as const),
  ];
  for (const [name, value] of lines)
    output.line(`${output.paint("faint", name.padEnd(14))} ${value}`.trimEnd());
  for (const { at, action, actor, detail } of queue.audit) {
    output.line(
      `${instant(at)} ${action} by ${shown(actor)}${detail === null ? "" : `: ${shown(detail)}`}`,
    );
  }
}
