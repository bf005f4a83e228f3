-- optional
-- What is in flight is counted with one look at `deliveries_in_flight`; each claim wrote an entry of this one, too. An index
-- of a partitioned table cannot be dropped concurrently: the lock is brief, and is given up and asked for again where
-- others hold the table.
DROP INDEX deliveries_in_flight_at_host;
