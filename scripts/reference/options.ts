/**
 * Renders the reference of all options from the option interfaces: name, what it is, default. The
 * interfaces and the schemas that parse them are typed by each other, so they cannot drift.
 */

/** Where the option interfaces live: file, interface, heading. */
const pages: readonly (readonly [path: string, name: string, heading: string])[] = [
  ["packages/core/src/job.ts", "JobOptions", "defineJob"],
  ["packages/core/src/backoff.ts", "RetryPolicy", "defineJob: retry"],
  ["packages/postgres/src/outbox.ts", "OutboxOptions", "createOutbox"],
  ["packages/postgres/src/enqueue-options.ts", "EnqueueOptions", "enqueue, publish"],
  [
    "packages/postgres/src/operator.ts",
    "OperatorOptions",
    "createJobs, createWorkers, createQueues, createDependencies",
  ],
  ["packages/postgres/src/jobs-options.ts", "JobsOptions", "createJobs, besides"],
  ["packages/postgres/src/jobs-options.ts", "WatchOptions", "jobs.watch"],
  ["packages/postgres/src/jobs-options.ts", "ResultOptions", "jobs.result"],
  ["packages/relay/src/options.ts", "RelayOptions", "createRelay"],
  ["packages/relay/src/options.ts", "RelayBrokerOptions", "createRelay: broker"],
  ["packages/worker/src/options.ts", "WorkerOptions", "createWorker"],
  ["packages/worker/src/options.ts", "WorkerBrokerOptions", "createWorker: broker"],
  ["packages/worker/src/options.ts", "QueueOptions", "createWorker: queues"],
  ["packages/worker/src/recycle.ts", "RecycleOptions", "createWorker: recycle"],
  ["packages/worker/src/job.ts", "SubscriptionOptions", "worker.on"],
  ["packages/worker/src/batch/options.ts", "BatchHandlerOptions", "worker.handleBatch"],
  ["packages/worker/src/isolation/options.ts", "ThreadHandlerOptions", "worker.handle: isolation"],
];

interface Option {
  readonly name: string;
  readonly text: string;
  readonly fallback: string;
}

function optionsOf(source: string, name: string): Option[] {
  const body = new RegExp(`^export interface ${name}\\b[^{]*\\{\\n([\\s\\S]*?)^\\}`, "m").exec(
    source,
  )?.[1];
  if (body === undefined) throw new Error(`There is no interface ${name} any more.`);
  const found = body.matchAll(/^ {2}\/\*\*([\s\S]*?)\*\/\s*readonly (\w+)(\??):/gm);
  return [...found].map((match) => {
    const lines = (match[1] ?? "").split("\n").map((line) => line.replace(/^\s*\* ?/, "").trim());
    const comment = lines
      .join(" ")
      .replace(/\{@link ([\w.]+)\}/g, "`$1`")
      .trim();
    const [text = "", ...rest] = comment.split("@default");
    const fallback = rest.join("").trim();
    return {
      name: match[2] ?? "",
      text: text.trim().replaceAll("|", "\\|"),
      fallback:
        fallback !== "" ? `\`${fallback.split(" @")[0]}\`` : match[3] === "?" ? "none" : "required",
    };
  });
}

/** The page docs/reference/options.md. */
export function renderOptions(read: (path: string) => string): string {
  const lines = [
    "# Options",
    "",
    "Made from the option interfaces by `npm run generate`. Unknown options are errors, and all problems",
    "are reported together (`ConfigError`).",
  ];
  for (const [path, name, heading] of pages) {
    lines.push("", `## ${heading}`, "", "| option | meaning | default |", "|---|---|---|");
    for (const option of optionsOf(read(path), name)) {
      lines.push(`| \`${option.name}\` | ${option.text} | ${option.fallback} |`);
    }
  }
  return `${lines.join("\n")}\n`;
}
