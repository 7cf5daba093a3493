-- A worker's presence: alive until its lease ends, unless renewed.
--
-- $1 boot id, $2 name, $3 host, $4 pid, $5 version, $6 JSON array of queues, $7 key of its advisory
-- lock or null, $8 lease in milliseconds, $9 milliseconds between heartbeats or null,
-- $10 milliseconds that it holds a delivery or null
--
-- Caller: the heartbeat thread of the worker's presence.
insert into waybill.worker (
  id, name, host, pid, version, queues, lock_key, lease_until, heartbeat_ms, hold_ms
)
values (
  $1::uuid, $2::text, $3::text, $4::integer, $5::text,
  array(select jsonb_array_elements_text($6::jsonb)), $7::bigint,
  clock_timestamp() + $8::double precision * interval '1 millisecond', $9::integer, $10::bigint
)
returning id::text as id
