/** Renders the parts of docs/reference/cli.md that follow from the code. */

import { buildCommand } from "../../packages/cli/src/cli.ts";
import { environmentVariables } from "../../packages/cli/src/env.ts";

type Command = ReturnType<typeof buildCommand>;

const cell = (text: string): string => text.replaceAll("|", "\\|");

function optionTable(command: Command): string {
  if (command.options.length === 0) return "";
  const rows = command.options.map((option) => {
    const choices =
      option.argChoices === undefined || option.description.includes(option.argChoices[1] ?? "")
        ? ""
        : ` (${option.argChoices.join(", ")})`;
    const fallback =
      typeof option.defaultValue === "number" ? `; default ${option.defaultValue}` : "";
    return `| \`${cell(option.flags)}\` | ${cell(option.description + choices + fallback)} |`;
  });
  return ["", "| option | meaning |", "|---|---|", ...rows, ""].join("\n");
}

function usageOf(command: Command, parents: string): string {
  const args = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
    return argument.required ? ` <${name}>` : ` [${name}]`;
  });
  return `${parents} ${command.name()}${args.join("")}`;
}

function sectionsOf(command: Command, parents: string): readonly string[] {
  return command.commands.flatMap((child) => {
    const usage = usageOf(child, parents);
    if (child.commands.length > 0) return sectionsOf(child, usage);
    const text = child.description();
    const sentence = `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
    return [`### \`${usage}\`\n\n${sentence}\n${optionTable(child)}`];
  });
}

function environmentTable(): string {
  const rows = environmentVariables.map(({ name, aliases, file, description }) => {
    const names = [name, ...aliases].map((each) => `\`${each}\``).join(", ");
    return `| ${names} | ${file ? "yes" : ""} | ${cell(description)} |`;
  });
  return ["| variable | `_FILE` | meaning |", "|---|---|---|", ...rows].join("\n");
}

/** Blocks that the page must hold word for word: one per command, the options, the environment. */
export function renderReference(): readonly string[] {
  const root = buildCommand({
    environment: { values: new Map(), issues: [] },
    run: () => Promise.resolve(),
  });
  return [optionTable(root), ...sectionsOf(root, "waybill"), environmentTable()].map((block) =>
    block.trim(),
  );
}
