/** The front door: the demo as a newcomer starts it, with fewer events. */

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, inject, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface DemoRun {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the demo on the services of this test run. */
async function runDemo(...args: string[]): Promise<DemoRun> {
  const { promise, resolve } = Promise.withResolvers<DemoRun>();
  const { PATH, HOME, TMPDIR } = process.env;
  const managementUrl = inject("managementUrl");
  execFile(
    process.execPath,
    ["--conditions=@waybill/source", "examples/webhooks/src/demo.ts", ...args],
    {
      cwd: root,
      env: {
        PATH,
        HOME,
        TMPDIR,
        DATABASE_URL: inject("databaseUrl"),
        RABBITMQ_URL: inject("rabbitmqUrl"),
        ...(managementUrl === "" ? {} : { WAYBILL_MANAGEMENT_URL: managementUrl }),
      },
    },
    (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      resolve({ code, stdout, stderr });
    },
  );
  return await promise;
}

test("the demo kills a worker and the relay and loses, doubles and invents nothing", async () => {
  const { code, stdout, stderr } = await runDemo("--events", "150");

  expect(stderr).toBe("");
  expect(stdout.trimEnd().split("\n").at(-1)).toMatch(
    /^demo: 150 events, 300 jobs, 150 effects, [1-9]\d* dead-lettered, 0 lost, 0 doubled, 0 ghosts$/,
  );
  expect(stdout).toMatch(/worker 1 \(process \d+\) killed with SIGKILL/);
  expect(stdout).toMatch(/relay \(process \d+\) killed with SIGKILL/);
  expect(code).toBe(0);
}, 90_000);

test("the demo prints one JSON object and nothing else on stdout when asked for JSON", async () => {
  const { code, stdout } = await runDemo("--events", "100", "--seed", "7", "--json");

  expect(JSON.parse(stdout)).toMatchObject({
    events: 100,
    jobs: 200,
    effects: 100,
    lost: 0,
    doubled: 0,
    ghosts: 0,
    seed: 7,
    kills: [{ process: "worker" }, { process: "relay" }],
  });
  expect(code).toBe(0);
}, 90_000);

test("the demo refuses a wrong option with exit code 2 and says which", async () => {
  const { code, stdout, stderr } = await runDemo("--events", "many");

  expect(code).toBe(2);
  expect(stdout).toBe("");
  expect(stderr).toContain("--events");
});
