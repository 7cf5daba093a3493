import { silentLogger, topologyNames } from "@waybill/core";
import { createBrokerConnection } from "@waybill/rabbitmq";
import type { Ground } from "../../scripts/stage/ground.ts";
import { waitForWord } from "./jobs.ts";

/** Who consumes the jobs of the measurement, as the broker sees it. */
export interface Consumers extends AsyncDisposable {
  count(): Promise<number>;
}

/** Connects to the broker. The queue must be there when they are counted. */
export async function countConsumers(ground: Ground): Promise<Consumers> {
  const connection = createBrokerConnection({
    url: ground.rabbitmqUrl,
    name: "waybill (takeover)",
    logger: silentLogger,
  });
  await connection.tryReady();
  const channel = await connection.openChannel();
  const queue = topologyNames(ground.prefix).queueName(waitForWord.options.queue);
  return {
    async count() {
      const { consumerCount } = await channel.call(`look at ${queue}`, (raw) =>
        raw.checkQueue(queue),
      );
      return consumerCount;
    },
    [Symbol.asyncDispose]: () => connection.close(),
  };
}
