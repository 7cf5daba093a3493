import { headerInstant, headerOf, headerText, type HeaderTable } from "../header-values.ts";
import { elementTexts, memberTexts } from "../json-text.ts";
import { type Decoder, type Identity, type Reading, memberText, recordOf } from "./decoder.ts";

/** What follows a Celery task on its success or failure: another task, which nobody here starts. */
const followUps = ["callbacks", "errbacks", "chain", "chord"] as const;

const isEmpty = (value: unknown): boolean =>
  value === null || value === undefined || (Array.isArray(value) && value.length === 0);

function followUpIn(options: Readonly<Record<string, unknown>>): string | undefined {
  return followUps.find((name) => Object.hasOwn(options, name) && !isEmpty(options[name]));
}

const problemOf = (followUp: string): string =>
  `the Celery task has a follow-up (${followUp}), which would be dropped silently; send it without`;

function identify(headers: HeaderTable): Identity {
  const id = headerText(headerOf(headers, "id"));
  return {
    type: headerText(headerOf(headers, "task")),
    id: id === undefined || id === "" ? undefined : [id],
  };
}

/** Protocol 2: `[args, kwargs, options]`; the task and its times are headers. */
function readProtocol2(text: string, value: readonly unknown[], headers: HeaderTable): Reading {
  const [args, kwargs] = elementTexts(text);
  const options = recordOf(value[2]);
  if (!Array.isArray(value[0]) || recordOf(value[1]) === undefined || options === undefined) {
    return { problem: "the body is no Celery task, [args, kwargs, options]" };
  }
  const followUp = followUpIn(options);
  if (followUp !== undefined) return { problem: problemOf(followUp) };
  return {
    payload: `{"args":${args},"kwargs":${kwargs}}`,
    expiresAt: headerInstant(headerOf(headers, "expires")),
    runAt: headerInstant(headerOf(headers, "eta")),
  };
}

/** Protocol 1: `{"task": …, "id": …, "args": […], "kwargs": {…}}`, all in the body. */
function readProtocol1(text: string, body: Readonly<Record<string, unknown>>): Reading {
  const type = memberText(body, "task");
  const id = memberText(body, "id");
  if (type === undefined) return { problem: "the body is no Celery task: it has no task name" };
  const identity = { type, id: id === undefined ? undefined : [id] };
  const followUp = followUpIn(body);
  if (followUp !== undefined) return { ...identity, problem: problemOf(followUp) };
  const members = memberTexts(text);
  return {
    ...identity,
    payload: `{"args":${members.get("args") ?? "[]"},"kwargs":${members.get("kwargs") ?? "{}"}}`,
    expiresAt: headerInstant(body["expires"]),
    runAt: headerInstant(body["eta"]),
  };
}

/**
 * Celery, protocols 2 and 1, with the JSON serializer. The payload is `{"args": […], "kwargs": {…}}`
 * in the producer's own text. `eta` is the earliest start, `expires` the latest. The number of
 * retries is Waybill's to count, and no result is sent anywhere.
 */
export const celeryDecoder: Decoder = {
  identify,
  read: ({ text, value }, headers) => {
    if (Array.isArray(value)) return readProtocol2(text, value, headers);
    const body = recordOf(value);
    return body === undefined
      ? { problem: "the body is no Celery task" }
      : readProtocol1(text, body);
  },
};
