/**
 * Queues, as their operators see and change them. What code declared and what an operator has set are
 * kept apart: a deploy changes the former, and the latter goes on to win. Relays and workers notice a
 * change by the number in waybill.flow, which a trigger raises.
 *
 * Every act is one statement with its row in waybill.audit_log.
 */

import { checkKey, checkQueueName, ConfigError, type QueueSettings } from "@waybill/core";
import { actOptionRules, anything, checkOptions, optional, textRule } from "./check-options.ts";
import type { JsonRow } from "./json-row.ts";
import { operatorOf } from "./operator.ts";
import { effectiveOf, overridesAfter } from "./queue-change.ts";
import {
  inOrder,
  type QueueOverrides,
  type QueueReport,
  queueReportOf,
  type QueueSummary,
  queueSummaryOf,
} from "./queue-report.ts";
import { changeWords } from "./queue-words.ts";
import type {
  QueueActOptions,
  QueueChange,
  QueuesOptions,
  QueueTarget,
  TierAssignment,
} from "./queues-options.ts";
import type { RunStatement } from "./transactions.ts";

/** What {@link createQueues} makes. */
export interface Queues<Tx> {
  /** Queues that something was said about, and those that living workers consume, by name. */
  list(selector?: { readonly tx?: Tx | undefined }): Promise<readonly QueueSummary[]>;
  /**
   * One queue with its gates, workers and history.
   *
   * @throws ConfigError that lists the known queues where nothing is known of it
   */
  get(name: string, selector?: { readonly tx?: Tx | undefined }): Promise<QueueReport>;
  /**
   * Changes settings, for every worker and relay within a second after this has committed. They win
   * over what code declares, now and later, until `reset`.
   *
   * @param change the settings, or what makes them of those that hold; called again where somebody
   *   else changed them meanwhile
   * @returns the settings that hold now
   * @throws ConfigError that names every problem of the settings that would hold; nothing was changed
   *
   * @example
   * await queues.set("emails", { concurrency: 50, rate: null });
   * await queues.set("emails", ({ keys }) => ({ keys: { ...keys, concurrency: 2 } }));
   */
  set(
    name: string,
    change: QueueChange | ((present: QueueSettings) => QueueChange),
    act?: QueueActOptions<Tx>,
  ): Promise<QueueSettings>;
  /**
   * Takes everything back that operators have set: the declared settings hold again. Pauses, closed
   * taps and tiers of keys stay.
   *
   * @returns the settings that hold now
   */
  reset(name: string, act?: QueueActOptions<Tx>): Promise<QueueSettings>;
  /**
   * Pauses a queue, or one job type or key of it: what runs goes on, nothing else starts. It lasts over
   * restarts, until `resume`.
   *
   * @returns false where it was paused already; then nothing was changed
   */
  pause(target: QueueTarget, act?: QueueActOptions<Tx>): Promise<boolean>;
  /**
   * Ends a pause, and opens a tap that a handler's RetryAfterError has closed.
   *
   * @returns false where it was neither paused nor closed; then nothing was changed
   */
  resume(target: QueueTarget, act?: QueueActOptions<Tx>): Promise<boolean>;
  /**
   * Puts a key into a tier of the queue's settings, or takes it out of its tier.
   *
   * @throws ConfigError that lists the tiers there are where there is none of that name
   */
  setTier(assignment: TierAssignment, act?: QueueActOptions<Tx>): Promise<void>;
}

/** Rounds of reading and writing settings that others change at the same time. */
const roundsMax = 20;

function checkTarget(subject: string, target: QueueTarget): void {
  checkOptions(subject, target, {
    queue: anything,
    type: optional(textRule(255)),
    key: anything,
  });
  checkQueueName(target.queue);
  if (target.key !== undefined) checkKey("concurrency key", target.key);
  if (target.type === undefined || target.key === undefined) return;
  throw new ConfigError(subject, [{ path: "key", message: "does not go together with type" }]);
}

/**
 * Makes the reader and operator of queues.
 *
 * @throws ConfigError for options that are unknown or out of bounds, NameError for the schema
 */
export function createQueues<Tx>(options: QueuesOptions<Tx>): Queues<Tx> {
  const { statements, within, actor: defaultActor } = operatorOf("createQueues", options);

  const read = async (run: RunStatement, name: string): Promise<readonly QueueSummary[]> => {
    const rows = await run(statements.list_queues, [name]);
    return rows.map((row) => queueSummaryOf(JSON.parse(String(row["queue"])) as JsonRow));
  };

  const settingsOf = async (
    run: RunStatement,
    name: string,
  ): Promise<Readonly<Record<"declared" | "overrides" | "dependencies", string>>> => {
    const [row] = await run(statements.read_queue_settings, [name]);
    return {
      declared: String(row?.["declared"]),
      overrides: String(row?.["overrides"]),
      dependencies: String(row?.["dependencies"]),
    };
  };

  /** Reads, lets `decide` make the new overrides, and writes them where nobody has changed them since. */
  const rewrite = (
    subject: string,
    name: string,
    act: QueueActOptions<Tx>,
    decide: (
      declared: QueueSettings,
      overrides: QueueOverrides,
      dependencies: readonly string[],
    ) => QueueOverrides,
  ): Promise<QueueSettings> => {
    checkQueueName(name);
    checkOptions(subject, act, actOptionRules);
    return within(act.tx, async (run) => {
      for (let round = 0; round < roundsMax; round += 1) {
        const found = await settingsOf(run, name);
        const declared = JSON.parse(found.declared) as QueueSettings;
        const overrides = JSON.parse(found.overrides) as QueueOverrides;
        const dependencies = JSON.parse(found.dependencies) as readonly string[];
        const changed = decide(declared, overrides, dependencies);
        const settings = effectiveOf(declared, changed);
        const words = changeWords(effectiveOf(declared, overrides), settings) || "no change";
        const rows = await run(statements.set_queue, [
          name,
          found.declared,
          found.overrides,
          JSON.stringify(changed),
          act.actor ?? defaultActor,
          act.reason === undefined ? words : `${words}: ${act.reason}`,
        ]);
        if (rows.length > 0) return inOrder(settings);
      }
      throw new ConfigError(subject, [
        { path: name, message: `was changed by others ${roundsMax} times meanwhile; try again` },
      ]);
    });
  };

  const stop = (
    verb: "pause" | "resume",
    target: QueueTarget,
    act: QueueActOptions<Tx>,
  ): Promise<boolean> => {
    checkTarget(`queues.${verb}`, target);
    checkOptions(`queues.${verb}`, act, actOptionRules);
    const { queue, type, key } = target;
    const who = [act.actor ?? defaultActor, act.reason ?? ""];
    const gate = type ?? key;
    return within(act.tx, async (run) => {
      const rows =
        gate === undefined
          ? await run(statements[`${verb}_queue`], [queue, ...who])
          : await run(statements[`${verb}_gate`], [
              queue,
              type === undefined ? "key" : "type",
              gate,
              ...who,
            ]);
      return rows.length > 0;
    });
  };

  return {
    async list(selector = {}) {
      checkOptions("queues.list", selector, { tx: anything });
      return within(selector.tx, (run) => read(run, ""));
    },

    async get(name, selector = {}) {
      checkQueueName(name);
      checkOptions("queues.get", selector, { tx: anything });
      return within(selector.tx, async (run) => {
        const [summary] = await read(run, name);
        if (summary === undefined) {
          const known = (await read(run, "")).map((queue) => queue.name).join(", ");
          const message = `nothing is known of it: no settings, no worker; known are ${known || "none"}`;
          throw new ConfigError(`queue "${name}"`, [{ path: name, message }]);
        }
        const [row] = await run(statements.get_queue, [name]);
        const rowsOf = (column: string): readonly JsonRow[] =>
          JSON.parse(String(row?.[column])) as readonly JsonRow[];
        return queueReportOf(summary, {
          gates: rowsOf("gates"),
          shares: rowsOf("shares"),
          audit: rowsOf("audit"),
        });
      });
    },

    async set(name, change, act = {}) {
      const subject = "queues.set";
      return rewrite(subject, name, act, (declared, overrides, dependencies) => {
        const wanted =
          typeof change === "function" ? change(effectiveOf(declared, overrides)) : change;
        return overridesAfter(subject, wanted, declared, overrides, dependencies);
      });
    },

    async reset(name, act = {}) {
      return rewrite("queues.reset", name, act, () => ({}));
    },

    pause: async (target, act = {}) => stop("pause", target, act),
    resume: async (target, act = {}) => stop("resume", target, act),

    async setTier(assignment, act = {}) {
      const subject = "queues.setTier";
      checkOptions(subject, assignment, {
        queue: anything,
        key: anything,
        tier: (value) => value === null || textRule(63)(value),
      });
      checkOptions(subject, act, actOptionRules);
      const { queue, key, tier } = assignment;
      checkQueueName(queue);
      checkKey("concurrency key", key);
      await within(act.tx, async (run) => {
        const rows = await run(statements.set_tier, [
          queue,
          key,
          tier ?? "",
          act.actor ?? defaultActor,
          act.reason ?? "",
        ]);
        if (rows.length > 0) return;
        const found = await settingsOf(run, queue);
        const settings = effectiveOf(
          JSON.parse(found.declared) as QueueSettings,
          JSON.parse(found.overrides) as QueueOverrides,
        );
        const tiers = Object.keys(settings.keys?.tiers ?? {}).join(", ");
        const message = `"${tier ?? ""}" is no tier of queue "${queue}"; there are ${tiers || "none"}`;
        throw new ConfigError(subject, [{ path: "tier", message }]);
      });
    },
  };
}
