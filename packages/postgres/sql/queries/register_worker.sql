-- A worker's presence: alive until its lease ends, unless renewed.
--
-- $1 boot id, $2 name, $3 host, $4 pid, $5 version, $6 JSON array of queues, $7 key of its advisory
-- lock or null, $8 lease in milliseconds
--
-- Caller: the worker's presence.
insert into waybill.worker (id, name, host, pid, version, queues, lock_key, lease_until)
values (
  $1::uuid, $2::text, $3::text, $4::integer, $5::text,
  array(select jsonb_array_elements_text($6::jsonb)), $7::bigint,
  clock_timestamp() + $8::double precision * interval '1 millisecond'
)
returning id::text as id
