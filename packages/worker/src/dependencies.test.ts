import { ConfigError, defineDependency, defineQueue, dependsOnOf } from "@waybill/core";
import { expect, test } from "vitest";
import { checkDependencies } from "./dependencies.ts";

const define = defineQueue({
  name: "emails",
  dependsOn: ["smtp"],
  types: { "email.bill": { dependsOn: ["billing", "smtp"] }, "email.note": { concurrency: 2 } },
});
const queues = { emails: { concurrency: 1, define }, plain: { concurrency: 1 } };

test("a job depends on what its queue and its type there depend on", () => {
  expect(dependsOnOf(define.settings, "email.note")).toEqual(["smtp"]);
  expect(dependsOnOf(define.settings, "email.bill")).toEqual(["smtp", "billing", "smtp"]);
  expect(dependsOnOf(define.settings, "constructor")).toEqual(["smtp"]);
  expect(dependsOnOf({}, "email.bill")).toEqual([]);
});

test("each unknown dependency is named once, with all places that need it", () => {
  const known = [defineDependency({ name: "ledger" })];
  const jobs = [
    { name: "charge", dependsOn: ["billing", "ledger"] },
    // Another version of it.
    { name: "charge", dependsOn: ["billing"] },
  ];

  const check = (): void => checkDependencies(known, jobs, queues);

  expect(check).toThrow(ConfigError);
  expect(check).toThrow(
    '"billing" is not among them, and is a dependency of job "charge", queue "emails" for jobs "email.bill"; there are ledger',
  );
  expect(check).toThrow(
    '"smtp" is not among them, and is a dependency of queue "emails", queue "emails" for jobs "email.bill"',
  );
});

test("dependencies that are all known are accepted, used or not", () => {
  const known = ["smtp", "billing", "unused"].map((name) => defineDependency({ name }));

  expect(() => checkDependencies(known, [], queues)).not.toThrow();
});
