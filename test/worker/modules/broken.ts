/** A module that cannot be loaded; see ../isolation.test.ts. */

throw Object.assign(new Error("the service is away"), { code: "ECONNREFUSED" });
