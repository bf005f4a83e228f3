#!/bin/sh
# Starts PgBouncer with the one user that it lets in: the role of the service, with the password of
# MEETCORE_SERVICE_PASSWORD. The file of users is written at each start, into memory: the image cannot have it, and the
# container writes to nothing else.
set -eu
umask 077
password="$(printf '%s' "${MEETCORE_SERVICE_PASSWORD:?}" | sed 's/"/""/g')"
printf '"meetcore_service" "%s"\n' "$password" > /run/pgbouncer/users.txt
unset MEETCORE_SERVICE_PASSWORD
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
