import { type RewritingWay, startRewritingWay } from "../support/rewriting-way.ts";

/** Tag of a NotificationResponse. */
const notification = "A".charCodeAt(0);

/** Takes the notifications out of what a server sends. Each message: a tag, its length, its body. */
function withoutNotifications(): (chunk: Buffer) => Buffer {
  let rest = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const passed: Buffer[] = [];
    while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
      const length = 1 + rest.readInt32BE(1);
      if (rest[0] !== notification) passed.push(rest.subarray(0, length));
      rest = rest.subarray(length);
    }
    return Buffer.concat(passed);
  };
}

/** A way to PostgreSQL on which LISTEN succeeds and nothing is ever heard, as behind a transaction pooler. */
export function startDeafWay(databaseUrl: string): Promise<RewritingWay> {
  return startRewritingWay(databaseUrl, withoutNotifications);
}
