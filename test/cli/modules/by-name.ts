/** A worker by its shape alone, which behaves as its name says: how the command treats each. */
import { once } from "node:events";
import type { RunnableWorker, WorkerEnvironment } from "@waybill/cli";

/** Keeps the process alive, as a worker's connections do. */
const stayAlive = (): NodeJS.Timeout => setInterval(() => undefined, 1_000);

const behaviours: Readonly<Record<string, RunnableWorker["run"]>> = {
  hurries: async ({ signal, hurrySignal = signal }) => {
    stayAlive();
    console.log("running");
    await once(signal, "abort");
    console.log(`draining, hurried ${hurrySignal.aborted}`);
    await once(hurrySignal, "abort");
  },
  deaf: async () => {
    stayAlive();
    console.log("running");
    await new Promise(() => undefined);
  },
  ends: async () => undefined,
  fails: () => Promise.reject(new Error("the customer cache is corrupt")),
};

export const worker = ({ name = "" }: WorkerEnvironment): RunnableWorker => ({
  run: behaviours[name] ?? (() => Promise.reject(new Error(`No behaviour ${name}.`))),
  [Symbol.asyncDispose]: () => Promise.resolve(),
});
