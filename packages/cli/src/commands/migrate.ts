import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { grantRoles, migrate, migrations, roleNames, schemaVersion } from "@waybill/postgres";
import { SchemaVersionError } from "@waybill/core";
import type { Program } from "../command.ts";
import { withDatabase } from "../database.ts";
import { exitCodes } from "../exit-codes.ts";

/** `waybill migrate`: brings the schema to this package's version. */
export function addMigrateCommand(root: CommandUnknownOpts, program: Program): void {
  root
    .command("migrate")
    .description("create or upgrade the schema; safe to repeat and to run from several places")
    .option(
      "--roles",
      "also create the database roles where they are missing, and give them their rights",
    )
    .option("--dry-run", "say what would be done; change nothing")
    .action(async (options, command) => {
      await program.run(command, ["databaseUrl"], async ({ settings, output, logger }) => {
        const { schema } = settings;
        const result = await withDatabase(settings.databaseUrl, async (client) => {
          if (options.dryRun !== true) {
            const done = await migrate(client, { schema, log: logger });
            if (options.roles === true) await grantRoles(client, { schema });
            return done;
          }
          const from = await schemaVersion(client, schema);
          if (from > migrations.length)
            throw new SchemaVersionError(schema, migrations.length, from);
          const pending = migrations.slice(from).map(({ name }) => name);
          return { from, to: migrations.length, applied: pending };
        });
        const dryRun = options.dryRun === true;
        const { from, to, applied } = result;
        const roles = options.roles === true ? roleNames(schema) : [];
        if (output.json) {
          output.object({ schema, dryRun, from, to, migrations: applied, roles });
          return exitCodes.ok;
        }
        for (const name of applied) output.line(name);
        if (applied.length === 0) output.note(`Schema "${schema}" is up to date (version ${to}).`);
        else if (dryRun)
          output.note(
            `Schema "${schema}" would go from version ${from} to ${to}. Nothing was changed.`,
          );
        else output.note(`Schema "${schema}" went from version ${from} to ${to}.`);
        if (roles.length > 0) {
          output.note(
            `Roles ${dryRun ? "that would get their rights" : "with their rights"}: ${roles.join(", ")}.`,
          );
        }
        return exitCodes.ok;
      });
    });
}
