-- The run's own: places where an export waits for what is to happen to it there, on fast machines and
-- on slow ones. An export without gates needs none of this.

create table gate (
  number integer primary key,
  rows bigint not null
);

-- A gate is shut while the run holds its lock. The step that comes to it waits in the middle of its
-- transaction: its lines are written, its checkpoint is not.
create function wait_at_gates() returns trigger
language plpgsql
as $$
begin
  perform pg_advisory_xact_lock_shared(30, g.number)
  from gate as g
  where g.rows < (select max(w.sale_id) from written as w);
  return null;
end
$$;

create trigger export_line_gates after insert on export_line
referencing new table as written
for each statement
execute function wait_at_gates();
