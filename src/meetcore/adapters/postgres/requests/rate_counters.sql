-- hit: Add one to the counter of a key, class and minute and returns the count: one trip, one row lock.
INSERT INTO rate_counters AS counter (window_start, api_key_id, class, hits)
VALUES (%(window_start)s, %(key_id)s, %(class)s, 1)
ON CONFLICT (window_start, api_key_id, class) DO UPDATE SET hits = counter.hits + 1
RETURNING hits

-- purge: Forget the minutes that started before an instant.
DELETE FROM rate_counters WHERE window_start < %(before)s
