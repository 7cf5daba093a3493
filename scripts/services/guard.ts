/**
 * The other half of guarded.ts: a process of its own that reads what its parent has started and, when the parent is
 * gone (its end of the pipe closes, even by SIGKILL), ends and removes what the parent had not.
 */
import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

import { endPostgres } from "./postgres-end.ts";
import { killTree } from "./processes.ts";

const execute = promisify(execFile);
const entries = new Set<string>();

// Ctrl-C and a closing terminal reach the whole session; the guard is the one who has to stay.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

for await (const line of createInterface({ input: process.stdin })) {
  if (line.startsWith("+")) entries.add(line.slice(1));
  else entries.delete(line.slice(1));
}

const byKind = (kind: string): string[] =>
  [...entries]
    .filter((entry) => entry.startsWith(`${kind} `))
    .map((entry) => entry.slice(kind.length + 1));

await Promise.allSettled([
  ...byKind("process").map((pid) => killTree(Number(pid))),
  ...byKind("postgres").map((dataDirectory) => endPostgres(dataDirectory)),
  ...byKind("container").map((id) => execute("docker", ["rm", "--force", "--volumes", id])),
]);
for (const path of byKind("directory"))
  rmSync(path, { recursive: true, force: true, maxRetries: 5 });
for (const path of byKind("file")) rmSync(path, { force: true });
