import { renderStatement } from "../jobs.ts";
import { hooli, latecomers, makeStatements, tenants } from "./plan.ts";
import { allEnded, enqueue, type Stage, succeeded } from "./stage.ts";

/** Jobs that the first tenant has had done when the others come. */
const headStart = 20;

/**
 * The tenant with the smallest share enqueues the most, and first; then the others come. Resolves to the
 * ids of all these jobs.
 */
export async function shareQueue(stage: Stage): Promise<readonly string[]> {
  const { screen, plan, options } = stage;
  screen.heading("Three tenants share a queue");
  let first = 0;
  const next = (tenant: string): ReturnType<typeof makeStatements> => {
    const count = plan.statements[tenant] ?? 0;
    const items = makeStatements(options.seed, { first, count }, tenant);
    first += count;
    return items;
  };
  const ids = [...(await enqueue(stage, renderStatement, next(hooli.name)))];
  screen.event(
    `${hooli.name} enqueues ${ids.length} statements, and is alone: its own limit holds`,
  );
  await succeeded(stage, renderStatement.name, headStart);

  const items = latecomers.flatMap(({ name }) => next(name));
  ids.push(...(await enqueue(stage, renderStatement, items)));
  const names = latecomers.map(({ name }) => `${plan.statements[name]} of ${name}`);
  screen.event(`${names.join(" and ")} come; from now on each has its share by weight`);
  await allEnded(stage);
  screen.event(`all ${ids.length} statements of ${tenants.length} tenants are rendered`);
  return ids;
}
