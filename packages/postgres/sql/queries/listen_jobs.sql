-- Listens to what workers tell of watched jobs: channel <schema>.job.
-- Parameters: none. Needs a connection of its own, not one behind a transaction pooler.
-- Caller: job-hints.ts.
do $$
begin
  execute format('listen %I', replace('waybill.job', '"', ''));
end
$$
