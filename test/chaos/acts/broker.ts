import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { topologyNames } from "@waybill/core";
import { queues, subscriptions } from "../jobs.ts";
import type { Act, Scene } from "../storm.ts";

const connections = z.array(z.object({ name: z.string(), user: z.string().optional() }));
const topology = topologyNames("waybill");

const kill: Act = async ({ lastsMs }, { field, chronicle }) => {
  chronicle.note(`kill the broker, down for ${lastsMs} ms`);
  const calm = chronicle.disturb("broker");
  await field.rabbitmq.kill();
  chronicle.counts.broker += 1;
  await delay(lastsMs);
  await field.rabbitmq.start();
  calm();
  chronicle.note("the broker answers");
};

const freeze: Act = async ({ lastsMs }, { field, chronicle }) => {
  chronicle.note(`freeze the broker for ${lastsMs} ms`);
  const calm = chronicle.disturb("freeze");
  await field.rabbitmq.kill("SIGSTOP");
  await delay(lastsMs);
  await field.rabbitmq.kill("SIGCONT");
  calm();
};

/**
 * Raises an alarm by a limit that is always passed, and sets the usual limit again: both in the broker itself, since a
 * second rabbitmqctl would let a busy machine make half a minute of some seconds.
 */
const alarm =
  (setLimit: string, impossible: string, usual: string): Act =>
  async ({ fault, lastsMs }, { field, chronicle }) => {
    chronicle.note(`${fault} for ${lastsMs} ms`);
    const calm = chronicle.disturb("alarm");
    const steps = [
      `${setLimit}(${impossible})`,
      `timer:sleep(${lastsMs})`,
      `${setLimit}(${usual})`,
    ];
    await field.rabbitmq.ctl("eval", `${steps.join(", ")}.`);
    calm();
    chronicle.note(`${fault} is over`);
  };

const closeConnections: Act = async ({ pick }, { field, chronicle }) => {
  const listed = await field.management.request("GET", "/api/connections").catch(() => []);
  const all = connections.parse(listed);
  // Now and then all of them.
  const some = pick < 0.2 ? all : all.slice(Math.floor(pick * all.length)).slice(0, 2);
  chronicle.note(`close ${some.length} of ${all.length} connections of the broker`);
  await Promise.all(
    some.map(({ name }) =>
      // One that is gone already is closed as well.
      field.management
        .request("DELETE", `/api/connections/${encodeURIComponent(name)}`)
        .catch(() => undefined),
    ),
  );
};

async function remove(path: string, { field, chronicle }: Scene): Promise<void> {
  chronicle.note(`delete ${path}`);
  // One that is not there yet, or was deleted before, is deleted as well.
  await field.management.request("DELETE", `/api/${path}`).catch(() => undefined);
}

/** Not of subscriptions: an event is not for those that are not bound when it is published. */
function queuePath(pick: number): string {
  const names = Object.keys(queues).filter((name) => !subscriptions.some((one) => one === name));
  return `queues/%2F/${topology.queueName(names[Math.floor(pick * names.length)] ?? "")}`;
}

/** Faults of the broker, by name. */
export const brokerActs: Readonly<Record<string, Act>> = {
  "kill broker": kill,
  "freeze broker": freeze,
  "memory alarm": alarm("vm_memory_monitor:set_vm_memory_high_watermark", "0.00001", "0.4"),
  "disk alarm": alarm("rabbit_disk_monitor:set_disk_free_limit", "1000000000000000", "50000000"),
  "close connections": closeConnections,
  "purge queue": ({ pick }, scene) => remove(`${queuePath(pick)}/contents`, scene),
  "delete queue": ({ pick }, scene) => remove(queuePath(pick), scene),
  "delete dead-letter exchange": (_, scene) =>
    remove(`exchanges/%2F/${topology.dlxExchange}`, scene),
};
