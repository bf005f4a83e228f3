#!/bin/sh
# Run once by the Postgres image, on an empty data directory: the role of the service, which owns nothing.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --set password="$MEETCORE_SERVICE_PASSWORD" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
CREATE ROLE meetcore_service LOGIN PASSWORD :'password';
-- A pooler keeps no settings of a session: the role has them.
ALTER ROLE meetcore_service SET timezone = 'UTC';
ALTER ROLE meetcore_service SET statement_timeout = '10s';
ALTER ROLE meetcore_service SET idle_in_transaction_session_timeout = '15s';
SQL
