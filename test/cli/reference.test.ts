import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { exitCodes } from "../../packages/cli/src/exit-codes.ts";
import { renderReference } from "./render-reference.ts";

/** The formatter pads tables; only the words count. */
const words = (text: string): string => text.replaceAll(/-{2,}/g, "--").replaceAll(/ *\| */g, "|");

const page = words(readFileSync(new URL("../../docs/reference/cli.md", import.meta.url), "utf8"));

test.each(renderReference().map((block) => [block.split("\n")[0] ?? "", block] as const))(
  "the reference of the command is that of --help: %s",
  (_title, block) => {
    expect(page).toContain(words(block));
  },
);

test("the reference names no command that does not exist", () => {
  const titles = page.match(/^### .*$/gm) ?? [];
  const blocks = renderReference().map(words);

  expect(titles.filter((title) => !blocks.some((block) => block.startsWith(title)))).toEqual([]);
});

test("the reference explains every exit code", () => {
  const explained = [...page.matchAll(/^\|(\d+)\|/gm)].map((match) => Number(match[1]));

  expect(explained).toEqual(Object.values(exitCodes));
});
