import { silentLogger } from "@waybill/core";
import { expect, test } from "vitest";
import { News } from "./news.ts";

test("changes are told one statement at a time, and what came meanwhile by the next", async () => {
  const told: (readonly string[])[] = [];
  const answers: (() => void)[] = [];
  const store = {
    async tell(ids: readonly string[]): Promise<void> {
      told.push(ids);
      await new Promise<void>((resolve) => answers.push(resolve));
    },
  };
  const news = new News(store, silentLogger);
  news.watched = true;

  news.changed("a");
  const first = news.flush();
  await expect.poll(() => told).toEqual([["a"]]);
  news.changed("b");
  news.changed("b");
  const rest = news.flush();
  answers[0]?.();
  await first;
  await expect.poll(() => told).toEqual([["a"], ["b"]]);
  answers[1]?.();
  await rest;

  expect(told).toHaveLength(2);
});

test("nothing is told while nobody watches", async () => {
  const told: (readonly string[])[] = [];
  const news = new News({ tell: async (ids) => void told.push(ids) }, silentLogger);

  news.changed("a");
  await news.flush();

  expect(told).toEqual([]);
});
