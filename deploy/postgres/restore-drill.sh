#!/bin/sh
# Restore the newest backup into a directory of its own, verify the ledger in it, and remove it again (docs/deploying.md, restore).
#
#   restore-drill.sh BACKUPS ARCHIVE
#
#   BACKUPS  a directory of base backups, each a directory; one that is still being made is passed over
#   ARCHIVE  the directory into which the log (WAL) is archived
#
# Ends with 1 where the backup does not start, the ledger is not sound, or the last commit is older than MAX_AGE_S (3600).
# Environment: MEETCORE_… (the settings of the service; the address is replaced), and
#   PG_BIN         where PostgreSQL's programs of the backup's version are: in PATH
#   DATABASE       meetcore
#   SUPERUSER      postgres
#   POSTGRES_USER  postgres, who runs PostgreSQL's programs where root runs this
#   MEETCORE       the program: meetcore
#   SCRATCH        a directory with room for a database: /tmp
set -eu
umask 077

backups=$1 archive=$2
: "${MAX_AGE_S:=3600}" "${DATABASE:=meetcore}" "${SUPERUSER:=postgres}" "${POSTGRES_USER:=postgres}"
: "${MEETCORE:=meetcore}" "${SCRATCH:=/tmp}"
PATH=${PG_BIN:+$PG_BIN:}$PATH

fail() { echo "restore drill: $*" >&2; exit 1; }
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u "$POSTGRES_USER" -- "$@"; else "$@"; fi; }

# pg_basebackup writes the manifest when all is there.
manifest=$(find "$backups" -mindepth 2 -maxdepth 2 -name backup_manifest -printf '%T@ %p\n' | sort -n | tail -n 1)
manifest=${manifest#* }
[ -n "$manifest" ] || fail "$backups has no whole backup"

work=$(mktemp -d "$SCRATCH/meetcore-drill.XXXXXX")
finish() {
  as_postgres pg_ctl stop -D "$work/data" -m immediate -w >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap finish EXIT
trap "exit 1" HUP INT TERM
"$(dirname "$(readlink -f "$0")")/restore.sh" "$(dirname "$manifest")" "$archive" "$work/data"
echo 'local all all trust' >"$work/pg_hba.conf"
touch "$work/postgresql.conf"
[ "$(id -u)" != 0 ] || chown -R "$POSTGRES_USER" "$work"
# No port, and a socket that only its user can reach.
options="-c config_file='$work/postgresql.conf' -c hba_file='$work/pg_hba.conf' -c listen_addresses='' -c port=5432"
options="$options -c unix_socket_directories='$work' -c ssl=off -c archive_mode=off -c hot_standby=off"
options="$options -c logging_collector=off -c synchronous_standby_names=''"
as_postgres pg_ctl start -D "$work/data" -l "$work/server.log" -w -t 86400 -o "$options" >/dev/null || true
# It takes no connection until everything is replayed.
until as_postgres pg_isready -q -h "$work" -p 5432; do
  as_postgres pg_ctl status -D "$work/data" >/dev/null ||
    { tail -n 20 "$work/server.log" >&2; fail "the server did not come up: is the archive whole?"; }
  sleep 0.2
done

MEETCORE_DATABASE_URL="postgresql://$SUPERUSER@/$DATABASE?host=$work&port=5432" MEETCORE_DATABASE_POOLER=none
export MEETCORE_DATABASE_URL MEETCORE_DATABASE_POOLER
unset MEETCORE_DATABASE_DIRECT_URL
$MEETCORE credits verify --json || fail "the restored ledger is not sound"
last="SELECT COALESCE(extract(epoch FROM pg_last_xact_replay_timestamp())::bigint, $(stat -c %Y "$manifest"))"
last=$(as_postgres psql --no-psqlrc -qAt -h "$work" -p 5432 -U "$SUPERUSER" -d "$DATABASE" -c "$last")
age_s=$(($(date +%s) - last))
echo "restore drill: $manifest, last commit $age_s s ago" >&2
[ "$age_s" -le "$MAX_AGE_S" ] || fail "that is more than $MAX_AGE_S s ago"
