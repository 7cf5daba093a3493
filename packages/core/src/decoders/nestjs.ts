import { memberTexts } from "../json-text.ts";
import { type Decoder, memberText, recordOf } from "./decoder.ts";

/**
 * NestJS's ClientRMQ: `{"pattern": "emails.welcome", "data": {…}}`, with an `id` where `send` waits
 * for an answer, which it will not get. A pattern that is an object names no job.
 */
export const nestjsDecoder: Decoder = {
  identify: () => ({}),
  read: ({ text, value }) => {
    const body = recordOf(value);
    if (body === undefined || !Object.hasOwn(body, "pattern")) {
      return { problem: 'the body is no NestJS message, {"pattern": …, "data": …}' };
    }
    const id = memberText(body, "id");
    return {
      type: memberText(body, "pattern"),
      id: id === undefined ? undefined : [id],
      // JSON.stringify leaves out what emit was given as undefined.
      payload: memberTexts(text).get("data") ?? "null",
    };
  },
};
