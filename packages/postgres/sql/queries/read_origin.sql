-- Which database this is, in its present life. Caller: the relay at the start of a term.
select waybill.origin() as origin
