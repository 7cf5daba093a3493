-- The demo's own: when the relay let a job go, read off its slot while it runs. What was let go before
-- a pause or an outage began may start a moment after, and is told from what came later by this.

create function note_dispatch() returns trigger
language plpgsql
as $$
begin
  new.dispatched_at := (select s.dispatched_at from waybill.slot as s where s.id = new.job_id);
  return new;
end
$$;

create trigger attempt_dispatch before insert on attempt
for each row
execute function note_dispatch();
