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
  const openssl = (args: string): Promise<unknown> =>
    execute("openssl", args.split(" "), { cwd: directory });
  const read = (name: string): Promise<string> => readFile(join(directory, name), "utf8");
  const newKey = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
  await openssl(`req -x509 ${newKey} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority`);
  let issued = 0;
  return {
    file: join(directory, "ca.pem"),
    async issue(host, days = 2) {
      const name = `issued-${(issued += 1)}`;
      await writeFile(join(directory, `${name}.ext`), `subjectAltName=${host}`);
      await openssl(`req ${newKey} -keyout ${name}.key -out ${name}.csr -subj /CN=server`);
      await openssl(
        `x509 -req -in ${name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days ${days} -extfile ${name}.ext -out ${name}.pem`,
      );
      return { cert: await read(`${name}.pem`), key: await read(`${name}.key`) };
    },
    async [Symbol.asyncDispose]() {
      await rm(directory, { recursive: true });
    },
  };
}
