/** Renders the reference of the database schema from the migrations' own comments. */

interface Column {
  readonly name: string;
  readonly type: string;
}

const unquote = (text: string): string => text.replaceAll("''", "'");

function columnsOf(body: string): Column[] {
  return body
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^[a-z_]+ /.test(line) && !/^(constraint|primary|unique|check) /.test(line))
    .map((line) => {
      const [, name = "", type = ""] = /^([a-z0-9_]+) (.+?),?$/.exec(line) ?? [];
      return { name, type };
    });
}

function commentsOf(sql: string, kind: string): Map<string, string> {
  const found = sql.matchAll(
    new RegExp(`^comment on ${kind} waybill\\.(\\S+?)(?:\\([^)]*\\))? is '((?:[^']|'')*)';`, "gm"),
  );
  return new Map([...found].map((match) => [match[1] ?? "", unquote(match[2] ?? "")]));
}

/** The page docs/reference/schema.md. */
export function renderSchema(sql: string): string {
  const columns = commentsOf(sql, "column");
  const lines = [
    "# Schema",
    "",
    "Made from `packages/postgres/sql/migrations` by `npm run generate`. The schema is called `waybill`",
    "unless another name is given; psql shows the same comments with `\\d+`.",
    "",
    "## Tables",
  ];
  const tableComments = commentsOf(sql, "table");
  for (const match of sql.matchAll(/^create table waybill\.(\w+) \(\n([\s\S]*?)^\)/gm)) {
    const [, table = "", body = ""] = match;
    lines.push("", `### ${table}`, "", tableComments.get(table) ?? "", "");
    lines.push("| column | type | meaning |", "|---|---|---|");
    for (const column of columnsOf(body)) {
      const meaning = columns.get(`${table}.${column.name}`) ?? "";
      lines.push(`| ${column.name} | \`${column.type.replaceAll("|", "\\|")}\` | ${meaning} |`);
    }
  }
  lines.push("", "## Views", "");
  for (const [name, text] of commentsOf(sql, "view")) lines.push(`- **${name}**: ${text}`);
  lines.push("", "## Functions", "");
  for (const [name, text] of commentsOf(sql, "function")) lines.push(`- **${name}**: ${text}`);
  return `${lines.join("\n")}\n`;
}
