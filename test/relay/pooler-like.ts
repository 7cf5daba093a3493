import { type RewritingWay, startRewritingWay } from "../support/rewriting-way.ts";

/** BackendKeyData, which tells a client its server process: tag, length 12, process, key. */
const keyData = Buffer.from([0x4b, 0, 0, 0, 12]);

/** Changes the server process that the client is told. */
function withAnotherProcess(): (chunk: Buffer) => Buffer {
  let told = false;
  return (chunk) => {
    const at = told ? -1 : chunk.indexOf(keyData);
    if (at >= 0) {
      told = true;
      chunk.writeInt32BE(chunk.readInt32BE(at + 5) ^ 0x5a5a, at + 5);
    }
    return chunk;
  };
}

/**
 * A way to PostgreSQL that looks like a transaction pooler: it passes everything on, but tells clients
 * another server process than the one that answers them, as every pooler does.
 */
export function startPoolerLike(databaseUrl: string): Promise<RewritingWay> {
  return startRewritingWay(databaseUrl, withAnotherProcess);
}
