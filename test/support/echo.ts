/** A program for the test of startProcess: says its arguments, then what it is told. */
import { createInterface } from "node:readline";

for (const argument of process.argv.slice(2)) console.log(argument);
for await (const line of createInterface({ input: process.stdin })) console.log(`echo: ${line}`);
