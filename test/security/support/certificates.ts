/** Certificates of an authority of the test's own, and what can be wrong with one. */

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);

/** A certificate and its key, as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** See startAuthority. */
export interface Authority extends AsyncDisposable {
  /** File of the authority's own certificate. */
  readonly file: string;
  /** Issues a certificate for `host`, such as "IP:127.0.0.1"; valid for so many days, over already where negative. */
  issue(host: string, days?: number): Promise<Certificate>;
}

/** An authority that only who is told of it knows. Needs the command `openssl`. */
export async function startAuthority(): Promise<Authority> {
  const directory = await mkdtemp(join(tmpdir(), "waybill-tls-"));
  const at = (name: string): string => join(directory, name);
  const openssl = (...args: string[]): Promise<unknown> => execute("openssl", args);
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const file = at("ca.pem");
  await openssl(
    ...["req", "-x509", ...newKey, "-keyout", at("ca.key"), "-out", file],
    ...["-days", "2", "-subj", "/CN=Test authority"],
  );
  let issued = 0;
  return {
    file,
    async issue(host, days = 2) {
      issued += 1;
      const [key, request, cert, extensions] = ["key", "csr", "pem", "ext"].map((suffix) =>
        at(`${issued}.${suffix}`),
      ) as [string, string, string, string];
      await writeFile(extensions, `subjectAltName=${host}`);
      await openssl("req", ...newKey, "-keyout", key, "-out", request, "-subj", "/CN=server");
      await openssl(
        ...["x509", "-req", "-in", request, "-CA", file, "-CAkey", at("ca.key"), "-CAcreateserial"],
        ...["-days", String(days), "-extfile", extensions, "-out", cert],
      );
      return { cert: await readFile(cert, "utf8"), key: await readFile(key, "utf8") };
    },
    async [Symbol.asyncDispose]() {
      await rm(directory, { recursive: true });
    },
  };
}
