import { missing } from "./no-such-file.ts";
export const worker = missing;
