-- What the relay needs beyond the tables: how often publishing a row has failed, where the keyed
-- rows of a paged window lie, and the functions that make and drop partitions (DDL takes no
-- parameters, so it is built and quoted here).

alter table waybill.outbox add column failures integer not null default 0;
comment on column waybill.outbox.failures is 'How often publishing it failed before it was parked and came back.';

alter table waybill.relay add column keyed_from bigint;
alter table waybill.relay add column keyed_to bigint;
comment on column waybill.relay.keyed_from is 'Lowest seq of the rows with an ordering key that were seen in the open window.';
comment on column waybill.relay.keyed_to is 'Highest seq of the rows with an ordering key that were seen in the open window.';

-- Partitions with their bounds; the default partition has none.
create function waybill.list_partitions(parent regclass)
returns table (name text, lower_bound text, upper_bound text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
  select c.relname::text, b.bound[1], b.bound[2]
  from pg_catalog.pg_inherits as i
  join pg_catalog.pg_class as c on c.oid = i.inhrelid
  cross join lateral (
    select regexp_match(
      pg_catalog.pg_get_expr(c.relpartbound, c.oid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)'
    ) as bound
  ) as b
  where i.inhparent = parent
  order by c.relname
$$;

comment on function waybill.list_partitions(regclass) is 'Partitions of a table with their bounds as text; null for the default partition.';

-- Creates the partition of outbox for [starts, ends), with what the default partition holds of it.
-- Others wait while rows are moved, but not for the lock: after 100 ms it gives up.
-- False where more than rows_max rows would have to be moved.
create function waybill.create_outbox_partition(partition text, starts timestamptz, ends timestamptz, rows_max integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  found_rows integer;
begin
  if starts > clock_timestamp() then
    lock table waybill.outbox in share update exclusive mode;
  else
    -- Rows of this time are moved, and others are on their way. Whoever has looked up the partitions
    -- and then waits for the default one would read past what was moved away meanwhile, or insert
    -- there what is no longer its; so nobody may be between the two.
    lock table waybill.outbox in access exclusive mode;
  end if;
  lock table waybill.outbox_default in access exclusive mode;
  select count(*) into found_rows
  from (
    select from waybill.outbox_default as o
    where o.created_at >= starts and o.created_at < ends
    limit rows_max + 1
  ) as few;
  if found_rows > rows_max then
    return false;
  end if;
  -- Made beside the table and attached: "create table ... partition of" would lock all of it.
  execute format(
    'create table waybill.%I (like waybill.outbox including defaults including constraints including comments)', partition
  );
  execute format(
    'with moved as (delete from waybill.outbox_default as o where o.created_at >= %L and o.created_at < %L returning o.*)
     insert into waybill.%I select m.* from moved as m',
    starts, ends, partition
  );
  -- Proves the bounds, so that attaching need not read the rows again.
  execute format(
    'alter table waybill.%I add constraint %I check (created_at >= %L and created_at < %L)',
    partition, partition || '_bounds', starts, ends
  );
  execute format(
    'alter table waybill.outbox attach partition waybill.%I for values from (%L) to (%L)', partition, starts, ends
  );
  execute format('alter table waybill.%I drop constraint %I', partition, partition || '_bounds');
  return true;
end
$$;

comment on function waybill.create_outbox_partition(text, timestamptz, timestamptz, integer) is 'Creates a partition of the outbox and moves into it what the default partition holds of its time.';

-- Drops a partition of outbox unless something was committed into it that "checked" does not see.
-- What "checked" sees, the caller has looked at.
create function waybill.drop_outbox_partition(partition text, checked pg_snapshot)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  late boolean;
begin
  -- Waits for whoever still writes into any partition, and keeps new ones out for a moment.
  lock table waybill.outbox in access exclusive mode;
  execute format(
    'select exists (
       select from waybill.%I as o
       where o.tx >= pg_snapshot_xmin($1) and not pg_visible_in_snapshot(o.tx, $1)
     )',
    partition
  ) into late using checked;
  if late then
    return false;
  end if;
  execute format('drop table waybill.%I', partition);
  return true;
end
$$;

comment on function waybill.drop_outbox_partition(text, pg_snapshot) is 'Drops a partition of the outbox unless a transaction outside the snapshot has written into it.';

-- Creates the partition of inbox for ids of [starts, ends), with what the default partition holds
-- of it. False where more than rows_max rows would have to be moved.
create function waybill.create_inbox_partition(partition text, starts timestamptz, ends timestamptz, rows_max integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  first_id constant uuid := waybill.id_at(starts);
  end_id constant uuid := waybill.id_at(ends);
  found_rows integer;
begin
  if starts > clock_timestamp() then
    lock table waybill.inbox in share update exclusive mode;
  else
    -- Rows of this time are moved, and others are on their way. Whoever has looked up the partitions
    -- and then waits for the default one would read past what was moved away meanwhile, or insert
    -- there what is no longer its; so nobody may be between the two.
    lock table waybill.inbox in access exclusive mode;
  end if;
  lock table waybill.inbox_default in access exclusive mode;
  select count(*) into found_rows
  from (
    select from waybill.inbox_default as i
    where i.id >= first_id and i.id < end_id
    limit rows_max + 1
  ) as few;
  if found_rows > rows_max then
    return false;
  end if;
  execute format(
    'create table waybill.%I (like waybill.inbox including defaults including constraints including comments) with (fillfactor = 45)',
    partition
  );
  execute format(
    'with moved as (delete from waybill.inbox_default as i where i.id >= %L and i.id < %L returning i.*)
     insert into waybill.%I select m.* from moved as m',
    first_id, end_id, partition
  );
  execute format(
    'alter table waybill.%I add constraint %I check (id >= %L and id < %L)',
    partition, partition || '_bounds', first_id, end_id
  );
  execute format(
    'alter table waybill.inbox attach partition waybill.%I for values from (%L) to (%L)', partition, first_id, end_id
  );
  execute format('alter table waybill.%I drop constraint %I', partition, partition || '_bounds');
  return true;
end
$$;

comment on function waybill.create_inbox_partition(text, timestamptz, timestamptz, integer) is 'Creates a partition of the inbox and moves into it what the default partition holds of its ids.';

-- Drops a partition of inbox; what is unfinished or finished since "before" moves to the default
-- partition in the same transaction. False where that would be more than rows_max rows.
create function waybill.drop_inbox_partition(partition text, before timestamptz, rows_max integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  kept integer;
begin
  -- Only writes to these old ids wait while the partition is read.
  execute format('lock table waybill.%I in share row exclusive mode', partition);
  execute format(
    'select count(*) from (
       select from waybill.%I as i
       where i.finished_at is null or i.finished_at >= $1
       limit $2
     ) as few',
    partition
  ) into kept using before, rows_max + 1;
  if kept > rows_max then
    return false;
  end if;
  lock table waybill.inbox in access exclusive mode;
  execute format('alter table waybill.inbox detach partition waybill.%I', partition);
  execute format(
    'insert into waybill.inbox select i.* from waybill.%I as i where i.finished_at is null or i.finished_at >= $1',
    partition
  ) using before;
  execute format('drop table waybill.%I', partition);
  return true;
end
$$;

comment on function waybill.drop_inbox_partition(text, timestamptz, integer) is 'Drops a partition of the inbox; rows that still matter move to the default partition.';

-- Identity of the database cluster; null where this user may not read it.
create function waybill.system_identifier() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return (select c.system_identifier::text from pg_catalog.pg_control_system() as c);
exception
  when insufficient_privilege then
    return null;
end
$$;

comment on function waybill.system_identifier() is 'Identity of the database cluster; null where this user may not read it.';
