-- Database roles by least right, one for each part of Waybill. They cannot log in: grant them to the users
-- that do, such as "grant waybill_relay to relay". In a schema of another name the roles begin with that name.
--
--   waybill_app       enqueues, and nothing else
--   waybill_relay     publishes, and keeps the house
--   waybill_worker    runs jobs; enqueues as well
--   waybill_operator  looks at everything, and does what the command does to jobs, queues and workers
--   waybill_viewer    looks at everything but payloads, headers, results and checkpoints
--
-- The owner of the schema, who migrates it, needs no role.
--
-- Safe to repeat, and to be repeated after each upgrade: new tables come without rights for anybody. Creating
-- the roles needs CREATEROLE; once they are there, the owner of the schema suffices. Run by
-- "waybill migrate --roles", or by an administrator: psql --single-transaction --file roles.sql

do $$
declare
  wanted text;
begin
  -- One at a time: two grants at once on the same table would fail.
  perform pg_advisory_xact_lock(hashtextextended('waybill.migration', 0));
  foreach wanted in array array[
    'waybill_app', 'waybill_relay', 'waybill_worker', 'waybill_operator', 'waybill_viewer'
  ] loop
    begin
      if to_regrole(wanted) is null then
        execute format('create role %I nologin', wanted);
      end if;
    exception
      -- Roles belong to the whole cluster: somebody in another database was faster.
      when duplicate_object or unique_violation then null;
    end;
  end loop;
end
$$;

-- What an earlier version granted goes first.
revoke all on all tables in schema waybill
from waybill_app, waybill_relay, waybill_worker, waybill_operator, waybill_viewer;
revoke all on all sequences in schema waybill
from waybill_app, waybill_relay, waybill_worker, waybill_operator, waybill_viewer;
revoke all on all functions in schema waybill
from waybill_app, waybill_relay, waybill_worker, waybill_operator, waybill_viewer;
revoke all on schema waybill
from waybill_app, waybill_relay, waybill_worker, waybill_operator, waybill_viewer;

grant usage on schema waybill to waybill_app, waybill_relay, waybill_worker, waybill_operator, waybill_viewer;

-- All but the app compare the version of the schema with theirs.
grant select on waybill.migration to waybill_relay, waybill_worker, waybill_operator, waybill_viewer;

-- App: the function writes with its owner's rights.
grant execute on function waybill.enqueue(jsonb, boolean) to waybill_app, waybill_worker;

-- Relay.
grant select, insert, update, delete on waybill.outbox, waybill.timer, waybill.backlog, waybill.slot to waybill_relay;
grant select, delete on waybill.outbox_default, waybill.inbox_default to waybill_relay;
grant usage on sequence waybill.outbox_seq to waybill_relay;
grant select, insert, update on waybill.relay, waybill.dependency to waybill_relay;
grant select on waybill.inbox, waybill.queue, waybill.queue_gate to waybill_relay;
grant select, update (revision) on waybill.flow to waybill_relay;
grant select, insert, delete on waybill.freed, waybill.dependency_event, waybill.audit_log to waybill_relay;
grant select, update, delete on waybill.waiting, waybill.worker, waybill.worker_queue to waybill_relay;
grant select, insert, update, delete on waybill.audit to waybill_relay;
grant select on waybill.subscription to waybill_relay;
-- What is past its retention goes.
grant select, delete on
  waybill.checkpoint, waybill.dead_letter, waybill.dependency_outcome, waybill.failure, waybill.idempotency_key,
  waybill.progress, waybill.result, waybill.watch
to waybill_relay;
grant execute on function
  waybill.create_outbox_partition(text, timestamptz, timestamptz, integer),
  waybill.drop_outbox_partition(text, pg_snapshot),
  waybill.create_inbox_partition(text, timestamptz, timestamptz, integer),
  waybill.drop_inbox_partition(text, timestamptz, integer)
to waybill_relay;

-- Worker: it writes to the outbox, and reads there what a job that it hands back was published with.
grant select, insert on waybill.outbox to waybill_worker;
grant usage on sequence waybill.outbox_seq to waybill_worker;
grant select, insert, update on
  waybill.inbox, waybill.backlog, waybill.dependency, waybill.dependency_outcome, waybill.progress, waybill.queue,
  waybill.queue_gate, waybill.result
to waybill_worker;
grant select, insert, update, delete on
  waybill.checkpoint, waybill.dead_letter, waybill.timer, waybill.worker, waybill.worker_queue
to waybill_worker;
grant select, insert on waybill.audit_log, waybill.failure to waybill_worker;
grant select, insert on waybill.freed to waybill_worker;
grant select, update, delete on waybill.slot to waybill_worker;
grant select, update (revision) on waybill.flow to waybill_worker;
grant select on waybill.relay, waybill.watch to waybill_worker;
grant select, insert, update, delete on waybill.subscription to waybill_worker;
grant execute on function waybill.is_orphan(text, uuid, text, timestamptz) to waybill_worker;

-- Operator.
grant select on all tables in schema waybill to waybill_operator;
grant insert on
  waybill.audit_log, waybill.dependency_event, waybill.freed, waybill.inbox, waybill.outbox, waybill.queue,
  waybill.queue_gate, waybill.timer, waybill.watch
to waybill_operator;
grant usage on sequence waybill.outbox_seq to waybill_operator;
grant update on
  waybill.backlog, waybill.dependency, waybill.inbox, waybill.queue, waybill.queue_gate, waybill.timer, waybill.watch
to waybill_operator;
grant update (payload, payload_base64, version, priority) on waybill.outbox to waybill_operator;
grant update (stop_requested, stop_requested_at, stop_requested_by) on waybill.worker to waybill_operator;
grant update (revision) on waybill.flow to waybill_operator;
grant update (marker) on waybill.relay to waybill_operator;
grant update (lost, lost_at, lost_why) on waybill.audit to waybill_operator;
grant delete on
  waybill.backlog, waybill.dead_letter, waybill.queue_gate, waybill.slot, waybill.timer, waybill.waiting, waybill.watch
to waybill_operator;
grant execute on function waybill.erase_job(uuid, text, text) to waybill_operator;

-- Viewer: no column that holds what a job carries.
grant select on
  waybill.audit, waybill.audit_log, waybill.dependency, waybill.dependency_event, waybill.dependency_outcome, waybill.failure,
  waybill.flow, waybill.freed, waybill.inbox, waybill.progress, waybill.queue, waybill.queue_gate, waybill.relay,
  waybill.slot, waybill.subscription, waybill.waiting, waybill.watch, waybill.worker, waybill.worker_queue
to waybill_viewer;
grant select (
  tx, seq, id, kind, dispatch, queue, type, version, exchange, routing_key, payload_base64, priority, ordering_key,
  correlation_id, expires_at, enqueued_at, created_at, failures
) on waybill.outbox to waybill_viewer;
grant select (
  id, queue, kind, dispatch, fire_at, parked_at, reason, detail, failures, type, version, exchange, routing_key,
  payload_base64, priority, ordering_key, correlation_id, expires_at, enqueued_at, created_at, owner
) on waybill.timer to waybill_viewer;
grant select (
  id, queue, place, key, ordering_key, type, priority, dispatch, changed, enqueued_at, lane
) on waybill.backlog to waybill_viewer;
grant select (
  id, queue, type, version, attempts, failure_class, message, fingerprint, payload_base64, priority, ordering_key,
  correlation_id, enqueued_at, died_at
) on waybill.dead_letter to waybill_viewer;
grant select (id, queue, number, attempt, created_at) on waybill.checkpoint to waybill_viewer;
grant select (id, queue, created_at) on waybill.result to waybill_viewer;
grant select (
  id, queue, type, version, state, relayed, payload_base64, priority, ordering_key, correlation_id, attempt, crashes,
  dispatch, deaths, owner, worker, enqueued_at, next_at, waiting_for, waiting_detail, expires_at, started_at,
  finished_at, cancel_requested_at, failure_class, failure_message, failed_at, progress_stage, progress_done,
  progress_total, progress_percent, progress_at, stale, cancelled_by, cancel_reason, on_terminal, concurrency_key
) on waybill.job to waybill_viewer;
