-- Creates a partition of the inbox. False: too much lies in the default partition to move it now.
--
-- $1 name, $2 and $3 its bounds, $4 rows to move at most
--
-- Caller: the relay's partition keeper.
select waybill.create_inbox_partition($1::text, $2::timestamptz, $3::timestamptz, $4::integer) as done
