/** What an installation of Waybill brings along, and what its packages do to the disk; read from the files. */

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string => readFileSync(`${root}${path}`, "utf8");

interface Locked {
  readonly link?: boolean;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const locked = (
  JSON.parse(read("package-lock.json")) as { packages: Readonly<Record<string, Locked>> }
).packages;
const manifests = globSync("packages/*/package.json", { cwd: root }).sort();

/** The dependency's place in the lockfile: the nearest one, as Node looks for it. */
function placeOf(name: string, from: string): string | undefined {
  const nested = `${from}/node_modules/${name}`;
  if (nested in locked) return nested;
  const above = from.lastIndexOf("/node_modules/");
  if (above >= 0) return placeOf(name, from.slice(0, above));
  return `node_modules/${name}` in locked ? `node_modules/${name}` : undefined;
}

/** All that an installation of the packages brings along. */
function productionPlaces(): readonly string[] {
  const seen = new Set<string>();
  const visit = (names: readonly string[], from: string): void => {
    for (const name of names) {
      const place = placeOf(name, from);
      if (place === undefined || seen.has(place)) continue;
      const entry = locked[place];
      if (entry?.link === true) continue;
      seen.add(place);
      visit(Object.keys(entry?.dependencies ?? {}), place);
    }
  };
  for (const path of manifests) {
    const { dependencies = {} } = JSON.parse(read(path)) as { dependencies?: object };
    visit(Object.keys(dependencies), "");
  }
  return [...seen].sort();
}

test("S22: whatever is installed comes from the registry with its hash, and nothing of production runs a script at that", () => {
  const entries = Object.entries(locked).filter(
    ([place, entry]) => place.includes("node_modules/") && entry.link !== true,
  );

  expect(entries.filter(([, e]) => e.integrity?.startsWith("sha512-") !== true)).toEqual([]);
  // Where the lockfile says nothing, it is the registry that npm is set to, with the same hash.
  expect(
    entries.filter(
      ([, { resolved }]) =>
        resolved !== undefined && new URL(resolved).host !== "registry.npmjs.org",
    ),
  ).toEqual([]);
  expect(productionPlaces().filter((place) => locked[place]?.hasInstallScript === true)).toEqual(
    [],
  );
});

test("S22: the packages need few others, each in one exact version", () => {
  const direct = new Map<string, string>();
  for (const path of manifests) {
    const { dependencies = {} } = JSON.parse(read(path)) as {
      dependencies?: Readonly<Record<string, string>>;
    };
    for (const [name, range] of Object.entries(dependencies)) direct.set(name, range);
  }
  const foreign = [...direct].filter(([name]) => !name.startsWith("@waybill/"));

  expect(foreign.map(([name]) => name).sort()).toEqual([
    "@commander-js/extra-typings",
    "amqplib",
    "cli-table3",
    "commander",
    "pg",
    "pino",
    "tinyqueue",
    "uuidv7",
    "zod",
  ]);
  expect(foreign.filter(([, range]) => !/^\d+\.\d+\.\d+$/.test(range))).toEqual([]);
  expect(productionPlaces().length).toBeLessThanOrEqual(45);
});

test("S22: every package is published with its provenance", () => {
  for (const path of manifests) {
    expect(JSON.parse(read(path)), path).toMatchObject({
      publishConfig: { access: "public", provenance: true },
    });
  }
});

test("S24: the packages write no file, so that there is none to read, to guess or to race for", () => {
  const writing = globSync("packages/*/src/**/*.ts", { cwd: root }).filter(
    (path) =>
      !path.endsWith(".test.ts") &&
      /\b(writeFile|appendFile|createWriteStream|mkdtemp|mkdir|tmpdir)(Sync)?\b|["'`]\/(var\/)?tmp\b/.test(
        read(path),
      ),
  );

  expect(writing).toEqual([]);
});
