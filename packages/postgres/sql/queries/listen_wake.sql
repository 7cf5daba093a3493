-- Listens to the hint that waybill.enqueue sends at commit: channel <schema>.wake.
-- Parameters: none. Needs a connection of its own, not one behind a transaction pooler.
do $$
begin
  execute format('listen %I', replace('waybill.wake', '"', ''));
end
$$
