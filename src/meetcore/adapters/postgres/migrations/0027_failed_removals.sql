-- online
-- Removals that failed are found among the checks of every meeting that was just made.
CREATE INDEX CONCURRENTLY orphan_checks_failed ON orphan_checks (due_at) WHERE failures > 0;
