/**
 * The rules of the house as tests: what a reviewer would otherwise have to notice each time.
 * Each rule says in its failure which file breaks it and what to do.
 */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { errorCodes } from "@waybill/core";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** Files of the work tree that git tracks, or would track. */
const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  cwd: root,
  encoding: "utf8",
})
  .split("\n")
  .filter((path) => path !== "" && existsSync(join(root, path)));

const sources = files.filter((path) => /\.(ts|sql)$/.test(path) && !path.includes(".generated."));
const packageSources = sources.filter((path) => /^packages\/[^/]+\/src\/.*\.ts$/.test(path));

/** Which packages each package may import: lower layers only. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  core: [],
  postgres: ["core"],
  rabbitmq: ["core"],
  relay: ["core", "postgres", "rabbitmq"],
  worker: ["core", "postgres", "rabbitmq"],
  testing: ["core", "postgres", "worker"],
  cli: ["core", "postgres", "rabbitmq", "relay", "worker"],
};

function importsOf(path: string): string[] {
  const text = read(path);
  const found = text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']/g);
  return [...found].map((match) => match[1] ?? "");
}

test("a package imports lower layers only", () => {
  const wrong = packageSources.flatMap((path) => {
    const [, name = ""] = path.split("/");
    return importsOf(path)
      .filter((imported) => imported.startsWith("@waybill/"))
      .map((imported) => imported.slice("@waybill/".length))
      .filter((imported) => imported !== name && !(mayImport[name] ?? []).includes(imported))
      .map((imported) => `${path} imports @waybill/${imported}`);
  });

  expect(wrong).toEqual([]);
});

test("a package imports only what its package.json names", () => {
  const wrong = packageSources
    .filter((path) => !path.endsWith(".test.ts"))
    .flatMap((path) => {
      const [, name = ""] = path.split("/");
      const manifest = JSON.parse(read(`packages/${name}/package.json`)) as {
        dependencies?: Record<string, string>;
        peerDependencies?: Record<string, string>;
      };
      const named = { ...manifest.dependencies, ...manifest.peerDependencies };
      return importsOf(path)
        .filter((imported) => !imported.startsWith(".") && !imported.startsWith("node:"))
        .map((imported) => imported.match(/^(@[^/]+\/)?[^/]+/)?.[0] ?? imported)
        .filter((imported) => !(imported in named))
        .map((imported) => `${path} imports ${imported}`);
    });

  expect(wrong).toEqual([]);
});

test("the packages for producers pull in no driver and no broker client", () => {
  const manifests = ["core", "postgres"].map((name) => read(`packages/${name}/package.json`));

  for (const manifest of manifests) {
    expect(
      Object.keys((JSON.parse(manifest) as { dependencies: object }).dependencies),
    ).not.toEqual(expect.arrayContaining([expect.stringMatching(/^(pg|amqplib)$/)]));
  }
});

test("no file is longer than 400 lines", () => {
  const long = sources
    .map((path) => ({ path, lines: read(path).split("\n").length - 1 }))
    .filter(({ path, lines }) => lines > 400 && !path.includes("golden"));

  expect(long).toEqual([]);
});

test("SQL lives in .sql files only", () => {
  const statement =
    /["'`]\s*(select\s+[\w*(]|insert\s+into\s|update\s+\w+[\w.]*\s+set\s|delete\s+from\s|create\s+(table|index|function)\s|alter\s+table\s)/i;
  const wrong = packageSources
    .filter((path) => !path.endsWith(".test.ts"))
    .filter((path) => statement.test(read(path)));

  expect(wrong).toEqual([]);
});

test("S2: no statement is put together from strings", () => {
  // Of a template that begins as SQL does, and of whatever is handed to a driver.
  const built =
    /`\s*(?:select|insert into|update|delete from|with \w+ as|alter|create|drop|truncate|listen|notify|grant|copy|set local|savepoint)\s[^`]*\$\{|\.(?:query|unsafe|raw)\(\s*(?:`[^`]*\$\{|["'][^"']*["']\s*\+)/;
  const examples = ["`select ${x}`", "client.query(`x ${y}`)", "sql.unsafe('a' + b)"];
  const wrong = packageSources
    .filter((path) => !path.endsWith(".test.ts"))
    .filter((path) => built.test(read(path)));

  expect(examples.filter((example) => !built.test(example))).toEqual([]);
  expect(wrong).toEqual([]);
});

test("S2: every function of the database pins its search_path, and names reach dynamic SQL quoted", () => {
  const sql = sources.filter((path) => /^packages\/.*\.sql$/.test(path));
  const unpinned = sql.flatMap((path) =>
    read(path)
      .split(/^create (?:or replace )?function /m)
      .slice(1)
      .filter((text) => !/set search_path = pg_catalog\b/.test(text.split("$$")[0] ?? ""))
      .map((text) => `${path}: ${text.slice(0, 60)}`),
  );
  const dynamic = sql.flatMap((path) =>
    [...read(path).matchAll(/\bexecute\s+(?!function|procedure|on\b)([^;]*);/gi)]
      .map((match) => match[1] ?? "")
      // The loader puts the schema's checked and quoted name there.
      .filter((text) => !/^format\(\s*'/.test(text) || /%s/.test(text))
      .map((text) => `${path}: ${text}`),
  );

  expect(unpinned).toEqual([]);
  expect(dynamic).toEqual([
    "packages/postgres/sql/queries/ensure_schema.sql: 'create schema ' || rtrim('waybill.', '.')",
  ]);
});

test("S5: no source runs text as code, and what is imported late is named in the code or by the operator", () => {
  const code = packageSources.filter((path) => !path.endsWith(".test.ts"));
  const evaluates =
    /\beval\s*\(|\bnew Function\b|\bFunction\s*\(|["'](?:node:)?(?:vm|child_process)["']|\brequire\s*\(|createRequire/;

  expect(code.filter((path) => evaluates.test(read(path)))).toEqual([]);
  expect(
    code.flatMap((path) =>
      [...read(path).matchAll(/\bimport\(([^)]*)\)/g)]
        .filter(([, what = ""]) => !/^"[^"]*"$/.test(what))
        .map(([, what]) => `${path}: ${what}`),
    ),
  ).toEqual([
    // The file that the command line names.
    "packages/cli/src/worker-module.ts: pathToFileURL(file",
    // The module that worker.handle was given.
    "packages/worker/src/isolation/thread-entry.ts: data.module",
  ]);
});

test("S15: no URL of a job is fetched", () => {
  const calls = /\bfetch\s*\(|["'](?:node:)?(?:https?|http2|net|tls|dgram|undici)["']/;

  expect(
    packageSources.filter((path) => !path.endsWith(".test.ts") && calls.test(read(path))),
  ).toEqual([
    // A socket to the broker that the configuration names, and its management API.
    "packages/rabbitmq/src/link.ts",
    "packages/rabbitmq/src/management.ts",
  ]);
  // The webhook of the example goes where its environment says, and nowhere else.
  expect(read("examples/long-export/src/worker.ts")).toMatch(
    /const webhookUrl = required\("WEBHOOK_URL"\);[\s\S]*fetch\(webhookUrl, \{[\s\S]*redirect: "error"/,
  );
});

test("only the CLI's env.ts reads the environment", () => {
  const wrong = packageSources.filter(
    (path) =>
      path !== "packages/cli/src/env.ts" &&
      !path.endsWith(".test.ts") &&
      /\bprocess\.env\b/.test(read(path)),
  );

  expect(wrong).toEqual([]);
});

test("sources have no any, no non-null assertion, no default export and no export *", () => {
  const rules: readonly [string, RegExp][] = [
    ["any", /(:|<|\bas)\s*any\b/],
    ["default export", /^export default/m],
    ["export *", /^export \*/m],
    ["enum or namespace", /^\s*(export )?(const )?(enum|namespace) /m],
  ];
  const wrong = packageSources.flatMap((path) => {
    const text = read(path)
      .split("\n")
      .filter((_line, n, all) => !(all[n - 1] ?? "").includes("oxlint-disable-next-line"))
      .join("\n");
    return rules.filter(([, pattern]) => pattern.test(text)).map(([name]) => `${path}: ${name}`);
  });

  expect(wrong).toEqual([]);
});

test("generated files are fresh", () => {
  const run = (): string =>
    execFileSync(
      process.execPath,
      ["--conditions=@waybill/source", "scripts/embed-sql.ts", "--check"],
      {
        cwd: root,
        encoding: "utf8",
        stdio: "pipe",
      },
    );

  expect(run).not.toThrow();
});

test("every error code is documented with its remedy", () => {
  const page = read("docs/reference/errors.md");

  expect(errorCodes.filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
  expect(
    [...page.matchAll(/`(WAYBILL_[A-Z_]+)`/g)]
      .map((m) => m[1])
      .filter((code) => !(errorCodes as readonly string[]).includes(code ?? "")),
  ).toEqual([]);
});

test("no tracked file names a path of one machine, a registry host or a secret", () => {
  const patterns: readonly [string, RegExp][] = [
    ["path of a machine", /(^|[^A-Za-z0-9_.\]/-])\/(work|farm|home\/[a-z]+|Users\/[A-Za-z]+)\//m],
    ["registry host", /https?:\/\/(registry|deb)\./],
    ["private key", /-----BEGIN [A-Z ]*PRIVATE KEY-----/],
  ];
  const wrong = files
    .filter(
      (path) => !/package-lock\.json$|\.(png|jpg|ico)$/.test(path) && path !== "test/tidy.test.ts",
    )
    .flatMap((path) => {
      const text = read(path);
      return patterns
        .filter(([, pattern]) => pattern.test(text))
        .map(([name]) => `${path}: ${name}`);
    });

  expect(wrong).toEqual([]);
});

test("lock files name no registry host of one network", () => {
  const hosts = files
    .filter((path) => basename(path) === "package-lock.json")
    .flatMap((path) => [...read(path).matchAll(/"resolved": "https?:\/\/([^/"]+)/g)])
    .map((match) => match[1]);

  expect([...new Set(hosts)].filter((host) => host !== "registry.npmjs.org")).toEqual([]);
});

test("no test is skipped, alone, or without a name of its own", () => {
  const tests = sources.filter((path) => path.endsWith(".test.ts") && path !== "test/tidy.test.ts");
  const hidden = tests.filter((path) =>
    /\b(it|test|describe)\.(skip|only|todo|skipIf|runIf)\b/.test(read(path)),
  );
  const doubled = tests.flatMap((path) => {
    const names = [...read(path).matchAll(/^\s*(?:test|it)\(\s*(["'`])(.+?)\1,/gm)].map(
      (m) => m[2] ?? "",
    );
    return names.filter((name, n) => names.indexOf(name) !== n).map((name) => `${path}: ${name}`);
  });

  expect(hidden).toEqual([]);
  expect(doubled).toEqual([]);
});

test("tests wait for conditions, not for time", () => {
  const sleeping = sources
    .filter((path) => path.endsWith(".test.ts") && path !== "test/tidy.test.ts")
    .filter((path) => /\b(sleep|delay)\(\s*\d|setTimeout\((resolve|r),\s*\d{3,}/.test(read(path)));

  expect(sleeping).toEqual([]);
});

test("all packages have one version, and the changelog knows it", () => {
  const version = (JSON.parse(read("package.json")) as { version: string }).version;
  const manifests = files.filter((path) =>
    /^(packages|examples)\/[^/]+\/package\.json$/.test(path),
  );

  for (const path of manifests) {
    const manifest = JSON.parse(read(path)) as {
      version: string;
      dependencies?: Record<string, string>;
    };
    expect(manifest.version, path).toBe(version);
    for (const [name, range] of Object.entries(manifest.dependencies ?? {})) {
      if (name.startsWith("@waybill/")) expect(range, `${path}: ${name}`).toBe(version);
    }
  }
  expect(read("CHANGELOG.md")).toContain("## Unreleased");
});

test("every package has a README and an entry file", () => {
  const names = Object.keys(mayImport);
  const missing = names.flatMap((name) =>
    [`packages/${name}/README.md`, `packages/${name}/src/index.ts`].filter(
      (path) => !files.includes(path),
    ),
  );

  expect(missing).toEqual([]);
});

test("links between documents lead somewhere", () => {
  const broken = files
    .filter((path) => path.endsWith(".md"))
    .flatMap((path) =>
      [...read(path).matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)/g)]
        .map((match) => match[1] ?? "")
        .filter((target) => !existsSync(join(root, path, "..", target)))
        .map((target) => `${path}: ${target}`),
    );

  expect(broken).toEqual([]);
});
