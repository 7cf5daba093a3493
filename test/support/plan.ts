import type { ClientBase } from "pg";

/** One node of a plan that PostgreSQL explains, as far as the tests look at it. */
export interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Function Name"?: string;
  readonly "Actual Rows"?: number;
  readonly "Actual Loops"?: number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly PlanNode[];
}

/** Runs a statement, and resolves to the nodes of its plan. */
export async function explained(
  client: Pick<ClientBase, "query">,
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly PlanNode[]> {
  const { rows } = await client.query<{ "QUERY PLAN": readonly { readonly Plan: PlanNode }[] }>(
    `explain (analyze, costs off, timing off, summary off, format json) ${text}`,
    [...values],
  );
  const walk = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(walk)];
  return (rows[0]?.["QUERY PLAN"] ?? []).flatMap(({ Plan }) => walk(Plan));
}

/** Rows of tables that a plan read, at most. */
export function rowsRead(nodes: readonly PlanNode[], tables = /./): number {
  return nodes
    .filter((node) => tables.test(node["Relation Name"] ?? ""))
    .reduce(
      (sum, node) =>
        sum +
        ((node["Actual Rows"] ?? 0) + (node["Rows Removed by Filter"] ?? 0)) *
          (node["Actual Loops"] ?? 1),
      0,
    );
}
