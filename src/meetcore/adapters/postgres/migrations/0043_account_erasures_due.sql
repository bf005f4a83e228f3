-- When an erasure is tried next; at once without a time.
ALTER TABLE account_erasures ADD COLUMN due_at timestamptz;
