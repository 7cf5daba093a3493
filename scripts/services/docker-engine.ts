import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import type * as Testcontainers from "testcontainers";

const execute = promisify(execFile);

/** A Docker engine that answers. */
export interface DockerEngine {
  readonly testcontainers: typeof Testcontainers;
  readonly client: Testcontainers.ContainerRuntimeClient;
  /** For messages: "Docker 28.2.2". */
  readonly description: string;
}

/** The engine, or why there is none. */
export type DockerAnswer =
  | { readonly engine: DockerEngine }
  | { readonly engine?: undefined; readonly reason: string };

/** What testcontainers needs; 22.18 to 22.21 run everything else. */
function isNodeTooOld(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major < 22 || (major === 22 && minor < 22);
}

/** Whether any of the places is there at which an engine could answer; saves loading testcontainers for nothing. */
function mayHaveEngine(): boolean {
  if (process.env["DOCKER_HOST"]) return true;
  const runtime = process.env["XDG_RUNTIME_DIR"];
  return [
    "/var/run/docker.sock",
    join(homedir(), ".docker/run/docker.sock"),
    join(homedir(), ".docker/desktop/docker.sock"),
    join(homedir(), ".colima/default/docker.sock"),
    join(homedir(), ".testcontainers.properties"),
    ...(runtime ? [join(runtime, "docker.sock"), join(runtime, "podman/podman.sock")] : []),
  ].some(existsSync);
}

let answer: Promise<DockerAnswer> | undefined;

/** Asks for a Docker engine, once per process. */
export async function askDocker(): Promise<DockerAnswer> {
  return await (answer ??= ask());
}

/** A named socket that is not there; testcontainers would go on to another engine without a word. */
function missingSocket(): string | undefined {
  const path = /^unix:\/\/(.+)$/.exec(process.env["DOCKER_HOST"] ?? "")?.[1];
  return path === undefined || existsSync(path) ? undefined : path;
}

async function ask(): Promise<DockerAnswer> {
  const missing = missingSocket();
  if (missing !== undefined) return { reason: `DOCKER_HOST names ${missing}, which is not there` };
  if (!mayHaveEngine()) return { reason: "no Docker engine is running here" };
  if (isNodeTooOld()) {
    return { reason: `testcontainers needs Node 22.22, this is ${process.versions.node}` };
  }
  // The guard removes our containers when we cannot, given the docker command; then the reaper, an image that may have
  // to be pulled first, is not needed.
  const hasCommand = await execute("docker", ["--version"]).then(
    () => true,
    () => false,
  );
  if (hasCommand) process.env["TESTCONTAINERS_RYUK_DISABLED"] ??= "true";
  try {
    const testcontainers = await import("testcontainers");
    const client = await testcontainers.getContainerRuntimeClient();
    const { serverVersion } = client.info.containerRuntime as { serverVersion?: unknown };
    const version = typeof serverVersion === "string" ? ` ${serverVersion}` : "";
    return { engine: { testcontainers, client, description: `Docker${version}` } };
  } catch (error) {
    const fact = error instanceof Error ? error.message : String(error);
    return { reason: `Docker does not answer (${fact})` };
  }
}
