export { type RelayInternals } from "./internals.ts";
export { type RelayBrokerOptions, type RelayOptions } from "./options.ts";
export { createRelay, type Relay, type RelayState, type RelayStatus } from "./relay.ts";
