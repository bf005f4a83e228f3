-- online
-- Proves for the sessions that were there what the step of impersonation put on them, and finds the views of an operator.
ALTER TABLE sessions VALIDATE CONSTRAINT sessions_impersonated_by_fkey;
ALTER TABLE sessions VALIDATE CONSTRAINT sessions_impersonated;
CREATE INDEX CONCURRENTLY sessions_impersonated_by ON sessions (impersonated_by) WHERE impersonated_by IS NOT NULL;
