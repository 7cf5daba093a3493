import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { cpus, loadavg, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { findServices } from "../../scripts/stage/ground.ts";
import type { Screen } from "../../scripts/stage/screen.ts";
import { figureText, type Outcome } from "./measurement.ts";
import { measurements } from "./measurements.ts";
import type { FlowOptions } from "./options.ts";
import type { Stage } from "./stage.ts";

const results = fileURLToPath(new URL("../results/", import.meta.url));

interface Result extends Outcome {
  readonly name: string;
  readonly seconds: number;
  /** Load averages of the last minute, before and after. */
  readonly load: readonly [number, number];
}

async function versionOf(databaseUrl: string): Promise<string> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const found = await client.query<{ version: string }>(
      "select current_setting('server_version') as version",
    );
    return found.rows[0]?.version ?? "unknown";
  } finally {
    await client.end();
  }
}

async function save(stage: Stage, done: readonly Result[], options: FlowOptions): Promise<string> {
  const at = new Date().toISOString();
  const file = join(results, `flow-${at.replaceAll(/[:.]/g, "-")}.json`);
  const machine = {
    processor: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memoryBytes: totalmem(),
    node: process.version,
    postgres: await versionOf(stage.services.databaseUrl),
    services: stage.services.why,
  };
  await mkdir(results, { recursive: true });
  await writeFile(
    file,
    `${JSON.stringify({ at, options, machine, measurements: done }, null, 2)}\n`,
  );
  return file;
}

function summary(done: readonly Result[]): string {
  const figures = done.flatMap((result) => result.figures);
  const barred = figures.filter(({ bar }) => bar !== undefined);
  const missed = barred.filter(({ isMet }) => isMet !== true);
  const broken = missed.filter(({ isHard }) => isHard === true);
  return `flow: ${done.length} measurements, ${barred.length - missed.length} of ${barred.length} bars met, ${broken.length} promises broken`;
}

/**
 * Does the measurements, from finding the servers to clearing everything away.
 *
 * @returns true where no promise was broken; a missed bar of speed is only told
 */
export async function measureFlow(
  options: FlowOptions,
  screen: Screen,
  stop: AbortController,
): Promise<boolean> {
  await using services = await findServices(screen, stop.signal);
  const directory = await mkdtemp(join(tmpdir(), "waybill-flow-"));
  await using undo = new AsyncDisposableStack();
  undo.defer(() => rm(directory, { recursive: true, force: true }));
  const stage: Stage = { services, screen, stop, directory, quick: options.quick };
  const done: Result[] = [];
  for (const { name, title, measure } of measurements) {
    if (!options.only.includes(name)) continue;
    screen.heading(`${name}: ${title}`);
    const before = loadavg()[0] ?? 0;
    const startedAt = performance.now();
    const { figures } = await measure(stage);
    screen.endProgress();
    const seconds = (performance.now() - startedAt) / 1_000;
    done.push({ name, seconds, load: [before, loadavg()[0] ?? 0], figures });
    screen.line(`${name}: ${figures.map(figureText).join(", ")}`);
  }
  const file = await save(stage, done, options);
  screen.line();
  screen.line(`Figures as JSON: ${file}`);
  screen.line(summary(done));
  return done.every(({ figures }) =>
    figures.every(({ isHard, isMet }) => isHard !== true || isMet === true),
  );
}
