/** Enqueues in the caller's transaction, as an application in any language can. */
export async function enqueueIn(
  tx: { query(text: string, values: unknown[]): Promise<unknown> },
  type: string,
  payload: unknown,
): Promise<void> {
  await tx.query("select id from waybill.enqueue(($1::text)::jsonb)", [
    JSON.stringify([{ type, queue: "work", payload }]),
  ]);
}
