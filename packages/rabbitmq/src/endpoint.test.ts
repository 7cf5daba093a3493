import { ConfigError } from "@waybill/core";
import { expect, test } from "vitest";

import { parseEndpoints, shuffled } from "./endpoint.ts";

test("an address is shown without user and password", () => {
  const [endpoint] = parseEndpoints("amqp://ann:s%40cret@broker.example:5673/team%2Fone");

  expect(endpoint).toMatchObject({
    host: "broker.example",
    port: 5673,
    vhost: "team/one",
    display: "amqp://***@broker.example:5673/team%2Fone",
    connect: { username: "ann", password: "s@cret", vhost: "team%2Fone" },
  });
});

test("the defaults are RabbitMQ's own", () => {
  expect(parseEndpoints("amqp://localhost")[0]).toMatchObject({
    port: 5672,
    vhost: "/",
    username: "guest",
  });
  expect(parseEndpoints("amqps://[::1]/")[0]).toMatchObject({ port: 5671, host: "::1", tls: true });
});

test("all wrong addresses are reported together, without their text", () => {
  expect(() => parseEndpoints(["http://u:secret@x", "amqp://ok", "nonsense secret"])).toThrow(
    expect.objectContaining({
      code: "WAYBILL_CONFIG_INVALID",
      message: expect.not.stringContaining("secret"),
      issues: [
        { path: "url.0", message: "expected amqp:// or amqps://, found http://" },
        { path: "url.2", message: expect.stringContaining("expected a URL") },
      ],
    }),
  );
  expect(() => parseEndpoints([])).toThrow(ConfigError);
});

test("hosts are tried in an order of chance that loses none", () => {
  expect(shuffled([1, 2, 3, 4], () => 0)).toEqual([2, 3, 4, 1]);
  expect(shuffled([1, 2, 3, 4], () => 0.999).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4]);
});
