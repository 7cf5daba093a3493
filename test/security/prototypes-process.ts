/** Prints which properties of the language's prototypes the packages have changed; a test runs it. */

const prototypes = [
  Object,
  Function,
  Array,
  String,
  Number,
  Boolean,
  BigInt,
  Symbol,
  Error,
  Promise,
  Map,
  Set,
  WeakMap,
  Date,
  RegExp,
  ArrayBuffer,
  Uint8Array,
  Buffer,
  URL,
  AbortSignal,
].flatMap((constructor) => [constructor as object, constructor.prototype as object]);

const describe = (): ReadonlyMap<object, string> =>
  new Map(
    prototypes.map((object) => [
      object,
      JSON.stringify(
        Reflect.ownKeys(object).map((key) => {
          const found = Object.getOwnPropertyDescriptor(object, key);
          const value: unknown = found?.value;
          const text = typeof value === "function" ? Function.prototype.toString.call(value) : "";
          return [String(key), typeof value, found?.get === undefined, found?.writable, text];
        }),
      ),
    ]),
  );

const before = describe();
const loaded = await Promise.all([
  import("@waybill/core"),
  import("@waybill/postgres"),
  import("@waybill/rabbitmq"),
  import("@waybill/relay"),
  import("@waybill/worker"),
  import("@waybill/testing"),
  import("@waybill/cli"),
]);
const after = describe();
const changed = prototypes.filter((object) => before.get(object) !== after.get(object));
console.log(`loaded ${loaded.length} packages, changed ${changed.length} prototypes`);
