import { chargeInvoice, paymentsApi, renderStatement } from "../jobs.ts";
import { makeCharges, makeStatements } from "./plan.ts";
import { allEnded, breaker, enqueue, type Stage, succeeded, wait } from "./stage.ts";

/** Statements of this part are numbered from here, so that chance treats them as others. */
const firstStatement = 1_000_000;

/**
 * The provider goes down while invoices are charged, and comes back when a probe has failed. What does
 * not need it goes on meanwhile.
 */
export async function loseProvider(stage: Stage): Promise<void> {
  const { screen, plan, options, payments } = stage;
  const { name } = paymentsApi;
  screen.heading(`${name} goes down`);
  await enqueue(stage, chargeInvoice, makeCharges({ first: 0, count: plan.charges }));
  screen.event(`${plan.charges} invoices to charge`);
  await succeeded(stage, chargeInvoice.name, Math.ceil(plan.charges / 5));

  payments.goDown();
  screen.event(`${name} goes down: it drops every call`);
  const opened = await wait(stage, `the breaker of ${name} to open`, async () => {
    const now = await breaker(stage);
    return now.state === "open" ? now : undefined;
  });
  screen.event(`breaker open: ${opened.reason}; charges wait, and spend no attempt`);
  const which = { first: firstStatement, count: plan.meanwhile };
  await enqueue(stage, renderStatement, makeStatements(options.seed, which));
  screen.event(`${plan.meanwhile} statements come, which do not need ${name}: they run`);

  await wait(stage, "a probe to fail", async () =>
    (await breaker(stage)).openings >= 2 ? true : undefined,
  );
  screen.event("a probe went, one at a time, and failed: open again, for twice as long");
  payments.comeBack();
  screen.event(`${name} is back, and nobody has told Waybill`);
  await wait(stage, `the breaker of ${name} to close`, async () =>
    (await breaker(stage)).state === "closed" ? true : undefined,
  );
  screen.event("a probe went, and succeeded: breaker closed, the charges go on");
  await allEnded(stage);
  screen.event(`all ${plan.charges} invoices are charged`);
}
