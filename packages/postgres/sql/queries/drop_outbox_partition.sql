-- Drops a partition of the outbox. False: something was committed into it after the check.
--
-- $1 name, $2 snapshot of the check
--
-- Caller: the relay's partition keeper.
select waybill.drop_outbox_partition($1::text, $2::pg_snapshot) as done
