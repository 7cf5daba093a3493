/** `waybill audit` and `waybill reconcile`: do the books balance, and what if they do not. */

import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import type { QueueBooks } from "@waybill/postgres";
import type { Program } from "../command.ts";
import { confirm } from "../confirm.ts";
import { exitCodes } from "../exit-codes.ts";
import { withAudit, withJobs } from "../jobs-connection.ts";
import { type Output, shown } from "../output.ts";
import { printExplanation } from "./jobs-explain.ts";

const sum = (counts: object): number =>
  Object.values(counts as Readonly<Record<string, number>>).reduce((all, one) => all + one, 0);

/** The parts that are not empty: "3 retry, 1 lost". */
const parts = (counts: object): string =>
  Object.entries(counts as Readonly<Record<string, number>>)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name}`)
    .join(", ");

function printBooks(output: Output, books: readonly QueueBooks[], unaccounted: number): void {
  if (output.json) return output.object({ queues: books, unaccounted });
  if (books.length > 0) {
    output.table(
      [
        "queue",
        "committed",
        "waiting",
        "in flight",
        "ended",
        "unaccounted",
        "dispatched again",
        "",
      ],
      books.map((book) => [
        shown(book.queue),
        String(book.committed),
        String(sum(book.waiting)),
        String(sum(book.inFlight)),
        String(sum(book.ended)),
        book.unaccounted === 0 ? "0" : output.paint("bad", String(book.unaccounted)),
        book.audited ? String(book.dispatchedAgain) : "not audited",
        parts({ ...book.waiting, ...book.inFlight, ...book.ended }),
      ]),
    );
  }
  if (books.some(({ audited }) => !audited)) {
    output.note(
      "A queue is audited from the first time that a worker of this database consumes it.",
    );
  }
  output.line(`unaccounted: ${unaccounted}`);
}

function addAudit(root: CommandUnknownOpts, program: Program): void {
  root
    .command("audit")
    .description(
      "the books of every queue: committed = waiting + in flight + ended; exit 4 where a job is unaccounted for",
    )
    .option("--queue <name>", "only this queue or subscription")
    .option("--explain <job>", "why this job is not running, as waybill jobs explain does")
    .action(async ({ queue, explain }, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        if (explain !== undefined) {
          printExplanation(
            output,
            await withJobs(settings, (store) => store.explain(explain, { queue })),
          );
          return exitCodes.ok;
        }
        const books = await withAudit(settings, (audit) => audit.books({ queue }));
        const unaccounted = books.reduce((all, book) => all + book.unaccounted, 0);
        printBooks(output, books, unaccounted);
        return unaccounted === 0 ? exitCodes.ok : exitCodes.problems;
      });
    });
}

function addReconcile(root: CommandUnknownOpts, program: Program): void {
  root
    .command("reconcile")
    .description(
      "take for lost what was published and no worker has claimed; the relay dispatches it again at once",
    )
    .option("--queue <name...>", "only these queues or subscriptions")
    .option("--reason <text>", "kept in the audit log")
    .option("--yes", "do not ask")
    .action(async ({ queue: queues, reason, yes }, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output }) => {
        const what = queues === undefined ? "all queues" : queues.join(", ");
        const question = `Every message that waits in the broker comes a second time, and is recognised. Reconcile ${what}?`;
        if (!(await confirm(question, yes === true))) return exitCodes.failure;
        const taken = await withAudit(settings, (audit) => audit.reconcile({ queues }, { reason }));
        const missing = queues?.filter((name) => !taken.includes(name)) ?? [];
        if (output.json) output.object({ queues: taken, unknown: missing });
        else for (const name of taken) output.line(`${shown(name)} is dispatched again`);
        if (missing.length > 0) {
          output.warn(
            `${missing.map((name) => shown(name)).join(", ")}: no worker of this database has consumed it, or no relay has published anything yet.`,
          );
        }
        if (taken.length > 0) return missing.length > 0 ? exitCodes.partial : exitCodes.ok;
        if (missing.length > 0) return exitCodes.failure;
        output.note("Nothing to do: no relay has published anything that a worker consumes.");
        return exitCodes.ok;
      });
    });
}

/** `waybill audit` and `waybill reconcile`. */
export function addAuditCommands(root: CommandUnknownOpts, program: Program): void {
  addAudit(root, program);
  addReconcile(root, program);
}
