export { freePort } from "./free-port.ts";
export type {
  PrivatePostgres,
  PrivatePostgresOptions,
  PrivateRabbitmq,
  PrivateRabbitmqOptions,
  PrivateServer,
} from "./private-server.ts";
export { resolveServices, type ResolveServicesOptions } from "./resolve-services.ts";
export type { Services, ServicesSource } from "./services.ts";
export { startPrivatePostgres, startPrivateRabbitmq } from "./start-private.ts";
