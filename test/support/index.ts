export { eventually, type EventuallyOptions } from "./eventually.ts";
export { type LoopbackServer, startLoopbackServer } from "./loopback-server.ts";
export { managementApi, type ManagementApi } from "./management-api.ts";
export { startProxy, type FaultProxy, type ProxyDirection } from "./proxy.ts";
export {
  startProcess,
  type ProcessExit,
  type StartProcessOptions,
  type TestProcess,
} from "./start-process.ts";
export { createPool, type TestDatabase } from "./database-server.ts";
export {
  createMigratedDatabase,
  createTestDatabase,
  type TestDatabaseOptions,
} from "./test-database.ts";
export { createTestVhost, type TestVhost, type TestVhostOptions } from "./test-vhost.ts";
