import { headerOf, headerText } from "../header-values.ts";
import type { Decoder } from "./decoder.ts";

/**
 * The body is the payload. The type may be a header `type`, which is where Symfony's JSON
 * serializer and `amqp-publish -H` put it. A member `id` of the body is the payload's own business.
 */
export const jsonDecoder: Decoder = {
  identify: (headers) => ({ type: headerText(headerOf(headers, "type")) }),
  read: () => ({}),
};
