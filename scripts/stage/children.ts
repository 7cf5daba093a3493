import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { guarded } from "../services/guarded.ts";

/** A process that a script has started. */
export interface Child {
  readonly name: string;
  readonly pid: number;
  /**
   * Resolves to the first line of its output that matches, past or future; rejects once it has
   * ended without one.
   */
  line(pattern: RegExp): Promise<RegExpMatchArray>;
  /** Its last lines, to tell why it does not do what it should. */
  tail(): string;
  /** SIGSTOP: it stands still where it is. */
  freeze(): void;
  /** SIGCONT. */
  thaw(): void;
  /** SIGKILL, as a machine that fails; resolves once the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM, then SIGKILL for one that does not listen. */
  stop(): Promise<void>;
}

/** The processes of a script. Disposing ends them all. */
export interface Children extends AsyncDisposable {
  /** Starts a source file with Node; `command` is the file and its arguments. */
  start(name: string, command: readonly [URL, ...string[]], env: Environment): Child;
}

/** Added to a bare environment; undefined values are left out. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A process ended by itself. */
export class ProcessFailure extends Error {
  /** Name of the process. */
  readonly child: string;

  constructor(child: string, message: string) {
    super(message);
    this.child = child;
  }
}

const patienceMs = 15_000;
const tailLines = 15;

/** All output of a process, line by line; the last lines tell why it failed. */
class Output {
  readonly #lines: string[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #file: number | undefined;
  #ended = false;

  /** @param file gets all of it */
  constructor(process: ChildProcess, file: string | undefined) {
    this.#file = file === undefined ? undefined : openSync(file, "a");
    for (const stream of [process.stdout, process.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        this.#lines.push(line);
        if (this.#file !== undefined) writeSync(this.#file, `${line}\n`);
        // The first lines say where a service listens; the rest is only worth its tail.
        if (this.#lines.length > 200) this.#lines.splice(20, 100);
        for (const look of this.#waiting) look();
      });
    }
  }

  end(): void {
    this.#ended = true;
    if (this.#file !== undefined) closeSync(this.#file);
    for (const look of this.#waiting) look();
  }

  tail(): string {
    const lines = this.#lines.slice(-tailLines).map((line) => `    ${line.slice(0, 500)}`);
    return lines.length === 0 ? "    (it wrote nothing)" : lines.join("\n");
  }

  async line(pattern: RegExp): Promise<RegExpMatchArray> {
    const found = Promise.withResolvers<RegExpMatchArray>();
    const look = (): void => {
      for (const line of this.#lines) {
        const match = line.match(pattern);
        if (match !== null) return found.resolve(match);
      }
      if (this.#ended) found.reject(new Error(`It ended early:\n${this.tail()}`));
    };
    this.#waiting.add(look);
    look();
    return await found.promise.finally(() => this.#waiting.delete(look));
  }
}

/**
 * No process yet.
 *
 * @param onFailure is called when a process ends that nobody has ended
 * @param logs directory for a file `<name>.log` of each process with all that it writes; undefined: its
 *   last lines are kept, in memory
 */
export function createChildren(
  onFailure: (error: ProcessFailure) => void,
  logs?: string,
): Children {
  const running = new Set<Child>();

  function start(
    name: string,
    [file, ...args]: readonly [URL, ...string[]],
    env: Environment,
  ): Child {
    const { PATH, HOME, TMPDIR } = process.env;
    const child = spawn(
      process.execPath,
      ["--conditions=@waybill/source", fileURLToPath(file), ...args],
      {
        env: { PATH, HOME, TMPDIR, ...env },
        stdio: ["ignore", "pipe", "pipe"],
        // A group of its own: Ctrl-C in the terminal is for the script, which then ends its processes.
        detached: true,
      },
    );
    const { pid } = child;
    if (pid === undefined)
      throw new Error(`Cannot start ${name}: ${process.execPath} does not run.`);
    const release = guarded("process", pid);
    const output = new Output(child, logs === undefined ? undefined : join(logs, `${name}.log`));
    const gone = Promise.withResolvers<void>();
    let expected = false;

    child.once("close", (code, signal) => {
      release();
      running.delete(self);
      output.end();
      gone.resolve();
      if (expected) return;
      const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
      onFailure(
        new ProcessFailure(name, `The ${name} ended ${how}. Its last lines:\n${output.tail()}`),
      );
    });

    async function end(signal: NodeJS.Signals): Promise<void> {
      expected = true;
      child.kill(signal);
      const timer = setTimeout(() => child.kill("SIGKILL"), patienceMs);
      await gone.promise;
      clearTimeout(timer);
    }
    const self: Child = {
      name,
      pid,
      line: (pattern) => output.line(pattern),
      tail: () => output.tail(),
      freeze: () => void child.kill("SIGSTOP"),
      thaw: () => void child.kill("SIGCONT"),
      kill: () => end("SIGKILL"),
      stop: () => end("SIGTERM"),
    };
    running.add(self);
    return self;
  }

  return {
    start,
    async [Symbol.asyncDispose]() {
      await Promise.all([...running].map((child) => child.stop()));
    },
  };
}
