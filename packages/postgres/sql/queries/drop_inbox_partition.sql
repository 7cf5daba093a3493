-- Drops a partition of the inbox; what still matters moves to the default partition. False: that
-- would be too much.
--
-- $1 name, $2 jobs finished since then still matter, $3 rows to keep at most
--
-- Caller: the relay's partition keeper.
select waybill.drop_inbox_partition($1::text, $2::timestamptz, $3::integer) as done
