#!/bin/sh
# Run once by the Postgres image, on an empty data directory: the role of the service, which owns nothing.
set -eu
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv password MEETCORE_SERVICE_PASSWORD
CREATE ROLE meetcore_service LOGIN PASSWORD :'password';
-- For the metrics of the oldest transaction and of the standbys' lag, which are of other roles.
GRANT pg_read_all_stats TO meetcore_service;
-- A pooler keeps no settings of a session: the role has them.
ALTER ROLE meetcore_service SET timezone = 'UTC';
ALTER ROLE meetcore_service SET datestyle = 'ISO,MDY';
ALTER ROLE meetcore_service SET intervalstyle = 'postgres';
ALTER ROLE meetcore_service SET bytea_output = 'hex';
ALTER ROLE meetcore_service SET extra_float_digits = '1';
ALTER ROLE meetcore_service SET standard_conforming_strings = 'on';
ALTER ROLE meetcore_service SET array_nulls = 'on';
ALTER ROLE meetcore_service SET transform_null_equals = 'off';
ALTER ROLE meetcore_service SET statement_timeout = '10s';
ALTER ROLE meetcore_service SET idle_in_transaction_session_timeout = '5s';
SQL
