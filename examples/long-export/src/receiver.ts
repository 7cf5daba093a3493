/** The customer's side: a server that takes signed webhooks, and prints each that is genuine. */

import { createServer } from "node:http";
import { required } from "./environment.ts";
import { isSigned } from "./signature.ts";

const secret = Buffer.from(required("WEBHOOK_SECRET"), "base64");
const seen = new Set<string>();

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts).toString("utf8");
    if (!isSigned(secret, request.headers, body)) {
      console.log("refused: not signed by us");
      response.writeHead(401).end();
      return;
    }
    const id = String(request.headers["webhook-id"]);
    // A second call for the same event is answered as the first was, and nothing else.
    if (!seen.has(id)) console.log(`webhook ${body}`);
    seen.add(id);
    response.writeHead(204).end();
  });
});

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port.");
  console.log(`listening on http://127.0.0.1:${address.port}`);
});
