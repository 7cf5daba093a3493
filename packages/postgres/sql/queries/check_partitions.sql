-- Partitions of outbox and inbox with their bounds and sizes.
-- Caller: waybill doctor.
select
  parent.relname::text as parent,
  child.relname::text as partition,
  pg_get_expr(child.relpartbound, child.oid) as bound,
  pg_total_relation_size(child.oid)::text as bytes
from pg_catalog.pg_inherits as i
join pg_catalog.pg_class as child on child.oid = i.inhrelid
join pg_catalog.pg_class as parent on parent.oid = i.inhparent
where i.inhparent in ('waybill.outbox'::regclass, 'waybill.inbox'::regclass)
order by parent.relname, child.relname
