/**
 * What is done to jobs that wait: for their time in the table timer, or for their turn in the backlog
 * of a governed queue. A job that the relay has not read yet may be on its way to the broker already,
 * and one that lies there cannot be changed any more, so both are refused.
 *
 * The row that waits decides, as it is at the moment of the write: a dispatch or a firing at the same
 * time takes the row as a whole, before or after.
 */

import {
  ConfigError,
  encodePayload,
  InvalidTransitionError,
  isSealed,
  isTerminal,
  type JobDefinition,
  type KeyRing,
  PayloadError,
  payloadBytesDefault,
  payloadBytesMax,
  type PayloadInput,
  sealPayload,
  valueText,
} from "@waybill/core";
import {
  actRules,
  anything,
  checkOptions,
  definitionRule,
  instantRule,
  integerRule,
  optional,
} from "./check-options.ts";
import { delayMsMax } from "./enqueue-options.ts";
import type { JobRecord } from "./job-record.ts";
import { checkDefinition } from "./job-result.ts";
import type { ActOptions } from "./jobs-options.ts";
import type { Statement, Statements } from "./statements.ts";
import type { RunStatement, Transactions } from "./transactions.ts";

/** A new payload of a job. */
export interface JobEdit<J extends JobDefinition> {
  /** The job's definition, whose schema has to accept the payload. */
  readonly job: J;
  readonly payload: PayloadInput<J>;
  /**
   * Largest payload, in bytes of UTF-8; at most 8 MiB.
   * @default 262144
   */
  readonly maxPayloadBytes?: number | undefined;
}

/** A new payload of a job whose definition is not at hand. No schema checks it before its worker does. */
export interface UncheckedJobEdit {
  readonly unchecked: true;
  /** Any JSON value. */
  readonly payload: unknown;
  /**
   * Largest payload, in bytes of UTF-8; at most 8 MiB.
   * @default 262144
   */
  readonly maxPayloadBytes?: number | undefined;
}

/** When a job that is put off goes. */
export interface JobDelay {
  /** Not before this instant. Not together with `delayMs`. */
  readonly runAt?: Date | undefined;
  /** Not before this many milliseconds from now by the database's clock; up to 3650 days. */
  readonly delayMs?: number | undefined;
}

/** Acts on jobs that wait. */
export interface WaitingActs<Tx> {
  /**
   * Replaces the payload of a job that waits: for a delay or a retry, or for its turn in a governed
   * queue. With a definition of another version than the job's, the job gets that version; in a
   * governed queue it has to be the same.
   *
   * @throws PayloadError where the definition's schema refuses the payload, before a statement is sent;
   *   ConfigError for the definition of another job, or where the job's payload is encrypted and
   *   `createJobs` was given no keys; InvalidTransitionError where it waits nowhere,
   *   JobNotFoundError where there is none
   *
   * @example
   * await jobs.edit(jobId, { job: sendWelcome, payload: { to: "anna@example.com" } });
   */
  edit<J extends JobDefinition>(
    id: string,
    change: JobEdit<J> | UncheckedJobEdit,
    act?: ActOptions<Tx>,
  ): Promise<void>;
  /**
   * Changes the priority of a job that waits for its time or for its turn.
   *
   * @param priority integer, higher first, -100 to 100
   * @throws InvalidTransitionError where it waits nowhere, JobNotFoundError where there is none
   */
  reprioritise(id: string, priority: number, act?: ActOptions<Tx>): Promise<void>;
  /**
   * Puts off a job that waits for its turn, or gives another time to one that waits for a delay or a
   * retry. In its turn it comes behind those that wait then, also behind those of its ordering key.
   *
   * @returns when it goes
   * @throws InvalidTransitionError where it waits nowhere, JobNotFoundError where there is none
   */
  delay(id: string, until: JobDelay, act?: ActOptions<Tx>): Promise<Date>;
}

/** What {@link createWaitingActs} is made of. */
export interface WaitingActsOptions<Tx> {
  readonly within: Transactions<Tx>;
  readonly find: (run: RunStatement, id: string, queue: string | undefined) => Promise<JobRecord>;
  readonly tell: (run: RunStatement, id: string) => Promise<unknown>;
  readonly statements: Statements;
  readonly actor: string;
  readonly encryption: KeyRing | undefined;
}

/** Why a job cannot be changed, and what can be done instead. */
function adviceFor({ state, relayed, waitingFor, version }: JobRecord, wanted?: number): string {
  if (isTerminal(state)) return "It has ended, and stays as it is; enqueue the work again.";
  if (state === "running") return "It runs; cancel it, and enqueue the work again.";
  if (waitingFor !== null && waitingFor !== "turn") {
    return `It is kept as ${waitingFor}, not by a delay, a retry or its turn; release it or cancel it.`;
  }
  if (!relayed) return "The relay has not read it yet; try again in a moment.";
  if (wanted !== undefined && wanted !== version) {
    return `Its payload has version ${version}, the definition ${wanted}; in its queue it keeps its version.`;
  }
  return (
    "It is on its way to a worker, where nothing reaches it; cancel it, and enqueue the work again. " +
    "Jobs of a governed queue can be changed as long as they wait for their turn."
  );
}

/** Makes `edit`, `reprioritise` and `delay`. */
export function createWaitingActs<Tx>(options: WaitingActsOptions<Tx>): WaitingActs<Tx> {
  const { within, find, tell, statements, actor, encryption } = options;

  /** Runs the statement of an act on the job; its row says that it was done. */
  const change = (
    id: string,
    act: ActOptions<Tx>,
    done: string,
    statement: Statement,
    paramsFor: (found: JobRecord) => readonly string[],
    job?: JobDefinition,
  ): Promise<Readonly<Record<string, unknown>>> =>
    within(act.tx, async (run) => {
      const found = await find(run, id, act.queue);
      checkDefinition("jobs.edit", job, found);
      const [row] = await run(statement, [
        found.id,
        found.queue,
        ...paramsFor(found),
        act.actor ?? actor,
        act.reason ?? "",
      ]);
      if (row !== undefined) {
        await tell(run, found.id);
        return row;
      }
      // As it is now: the statement's own snapshot is older.
      const now = await find(run, found.id, found.queue);
      const advice = adviceFor(now, job?.options.version);
      throw new InvalidTransitionError(now.id, now.state, done, advice);
    });

  return {
    async edit(id, edit, act = {}) {
      const subject = "jobs.edit";
      checkOptions(subject, edit, {
        ...("unchecked" in edit
          ? { unchecked: (value) => value === true || "must be true, or left out" }
          : { job: definitionRule }),
        payload: anything,
        maxPayloadBytes: optional(integerRule(1, payloadBytesMax)),
      });
      checkOptions(subject, act, actRules);
      const { payload, maxPayloadBytes = payloadBytesDefault } = edit;
      const job = "unchecked" in edit ? undefined : edit.job;
      const text =
        job === undefined
          ? uncheckedText(payload, maxPayloadBytes)
          : await valueText(job.name, "", job.payload, payload, maxPayloadBytes);
      const paramsFor = (found: JobRecord): readonly string[] => {
        const version = job?.options.version;
        if (encryption !== undefined) {
          // Sealed for this very version, which nobody may change meanwhile.
          const sealedFor = { ...found, version: version ?? found.version };
          return [sealPayload(encryption, sealedFor, text), String(sealedFor.version)];
        }
        if (found.payload !== null && isSealed(found.payload)) {
          throw new ConfigError(subject, [
            {
              path: "encryption",
              message: `is needed: the payload of job ${found.id} is encrypted; give createJobs the keys`,
            },
          ]);
        }
        return [text, version === undefined ? "" : String(version)];
      };
      await change(id, act, "edited", statements.edit_job, paramsFor, job);
    },

    async reprioritise(id, priority, act = {}) {
      checkOptions("jobs.reprioritise", { priority }, { priority: integerRule(-100, 100) });
      checkOptions("jobs.reprioritise", act, actRules);
      await change(id, act, "reprioritised", statements.reprioritise_job, () => [String(priority)]);
    },

    async delay(id, until, act = {}) {
      const { runAt, delayMs } = until;
      checkOptions("jobs.delay", until, {
        runAt: optional(instantRule),
        delayMs: (value) =>
          value === undefined
            ? runAt !== undefined || "is needed where runAt is left out"
            : runAt === undefined
              ? integerRule(0, delayMsMax)(value)
              : "does not go together with runAt",
      });
      checkOptions("jobs.delay", act, actRules);
      const row = await change(id, act, "delayed", statements.delay_job, () => [
        runAt?.toISOString() ?? "",
        delayMs === undefined ? "" : String(delayMs),
      ]);
      return new Date(String(row["fire_at"]));
    },
  };
}

function uncheckedText(payload: unknown, bytesMax: number): string {
  const encoded = encodePayload(payload, bytesMax);
  if (encoded.issues !== undefined) throw new PayloadError("of any definition", encoded.issues);
  return encoded.text;
}
