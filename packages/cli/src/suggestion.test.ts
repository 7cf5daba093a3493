import { expect, test } from "vitest";
import { suggestionFor } from "./suggestion.ts";

const known = ["WAYBILL_SCHEMA", "WAYBILL_PREFIX", "WAYBILL_NAME"];

test("a word with swapped, missing or wrong letters finds its neighbour", () => {
  expect(suggestionFor("WAYBILL_SCEHMA", known)).toBe("WAYBILL_SCHEMA");
  expect(suggestionFor("WAYBILL_PREFX", known)).toBe("WAYBILL_PREFIX");
  expect(suggestionFor("WAYBILL_NANE", known)).toBe("WAYBILL_NAME");
});

test("a word that resembles none finds nothing", () => {
  expect(suggestionFor("PATH", known)).toBeUndefined();
});
