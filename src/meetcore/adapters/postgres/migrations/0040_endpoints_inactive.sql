-- online
-- The endpoints that are not active, to be counted.
CREATE INDEX CONCURRENTLY webhook_endpoints_inactive ON webhook_endpoints (state) WHERE state <> 'active';
