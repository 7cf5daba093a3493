/** What a job carries is in no line of a log and in no answer of the command but that which is asked for it. */

import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { moduleOf, startPlace } from "../cli/place.ts";
import { runCli, startCli } from "../cli/support.ts";
import { eventually } from "../support/index.ts";

test("S9: a secret of a payload is in no log at the lowest level, whatever fails, and shown by `jobs show` alone", async () => {
  await using place = await startPlace();
  const secret = `canary-${randomBytes(8).toString("hex")}`;
  const { database } = place;
  // The database's own words about the second mail hold its address: detail "Key (email)=(…) already exists."
  await database.rows("alter table sent add unique (email)");
  const env = { ...place.env, LOG_LEVEL: "trace" };
  await using relay = await startCli(["relay"], env);
  await using worker = await startCli(["worker", moduleOf("emails.ts")], env);

  const sent = await place.enqueue(secret);
  await eventually(async () => (await place.sent()).length === 1, { deadlineMs: 25_000 });
  const again = await place.enqueue(secret);
  const invalid = await place.enqueue([secret]);
  await eventually(
    async () => {
      const rows = await database.rows<{ id: string }>("select distinct id from waybill.failure");
      expect(new Set(rows.map(({ id }) => id))).toEqual(new Set([again, invalid]));
    },
    { deadlineMs: 25_000 },
  );

  const commands = [
    ["jobs", "list"],
    ["jobs", "explain", again],
    ["dead", "list"],
    ["queue", "list"],
    ["workers", "list"],
    ["audit"],
    ["doctor"],
  ];
  for (const command of commands) {
    const { code, stdout, stderr } = await runCli(command, place.env);
    expect(stdout + stderr, command.join(" ")).not.toContain(secret);
    expect([0, 4], `${command.join(" ")}: ${stderr}`).toContain(code);
  }
  expect((await runCli(["jobs", "show", sent], place.env)).stdout).toContain(secret);
  for (const daemon of [relay, worker]) {
    daemon.kill("SIGTERM");
    await daemon.exited;
  }
  const log = [...relay.lines, ...worker.lines];
  expect(log.join("\n")).toContain(again);
  expect(log.filter((line) => line.includes(secret))).toEqual([]);
});
