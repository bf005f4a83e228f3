#!/bin/sh
# Restore PostgreSQL to a moment and fence it, before any client can connect (docs/restore.md).
#
#   restore.sh BACKUP ARCHIVE DATA [MOMENT]
#
#   BACKUP   a directory that `pg_basebackup` made (its plain format)
#   ARCHIVE  the directory into which the log (WAL) was archived
#   DATA     the new data directory: it must not exist
#   MOMENT   such as 2026-12-31T17:00:00Z; the end of the archive when it is not given
#
# Until it is fenced the server has no port: its one socket lies in a directory that only its user can enter. Then it is
# stopped, and DATA can be started as usual. As root, PostgreSQL's programs run as POSTGRES_USER.
#
# Environment: MEETCORE_… (the settings of the service; the address is replaced), and
#   PG_BIN         where PostgreSQL's programs are
#   CONFIG         postgresql.conf, where it is not in the data directory
#   DATABASE       meetcore
#   SUPERUSER      postgres
#   POSTGRES_USER  postgres
#   MEETCORE       the program: meetcore
#   TIMELINE       latest; "current" is that of the backup, to restore it once more to another moment
#   KEEP_RUNNING   a directory to make for the socket: the server goes on there, for the drill
#
# The history of the new timeline is copied into ARCHIVE, but not where KEEP_RUNNING is given.
set -eu
umask 077

backup=$1 archive=$2 data=$3 moment=${4:-}
: "${PG_BIN:=$(dirname "$(command -v pg_ctl || echo /usr/bin/pg_ctl)")}" "${DATABASE:=meetcore}" "${SUPERUSER:=postgres}"
: "${POSTGRES_USER:=postgres}" "${MEETCORE:=meetcore}" "${CONFIG:=}" "${KEEP_RUNNING:=}" "${TIMELINE:=latest}"

fail() { echo "restore: $*" >&2; exit 1; }
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u "$POSTGRES_USER" -- "$@"; else "$@"; fi; }
broken() { tail -n 20 "$private/server.log" >&2; fail "the server did not come up: is the archive whole?"; }
ask() { as_postgres "$PG_BIN/psql" --no-psqlrc -qAt -h "$private" -p 5432 -U "$SUPERUSER" -d "$DATABASE" -c "$1"; }

[ -f "$backup/backup_label" ] || fail "$backup is no base backup"
[ -d "$archive" ] || fail "$archive is no directory"
[ ! -e "$data" ] || fail "$data exists: restore into a new directory"
case $moment in *[!0-9A-Za-z:+.-]*) fail "write MOMENT as 2026-12-31T17:00:00Z" ;; esac

private=${KEEP_RUNNING:-$(mktemp -d /tmp/meetcore-restore.XXXXXX)}
mkdir -p "$private"
stop() { as_postgres "$PG_BIN/pg_ctl" stop -D "$data" -m fast -w >/dev/null 2>&1 || true; rm -rf "$private"; }
trap stop EXIT

give_to_postgres() { if [ "$(id -u)" = 0 ]; then chown -R "$POSTGRES_USER" "$@"; fi; }
mkdir "$data"
cp -R "$backup/." "$data/"
rm -f "$data/postmaster.pid" "$data/standby.signal"
touch "$data/recovery.signal"
printf '#!/bin/sh\nexec cp "%s/$1" "$2"\n' "$archive" >"$private/fetch"
chmod 700 "$private/fetch"
echo 'local all all trust' >"$private/pg_hba.conf"
[ -n "$CONFIG" ] || [ -f "$data/postgresql.conf" ] || CONFIG=$private/postgresql.conf
[ "$CONFIG" != "$private/postgresql.conf" ] || touch "$CONFIG"
give_to_postgres "$data" "$private"

# "Z" is not known yet when the server reads this.
case $moment in *Z) moment=${moment%Z}+00 ;; esac
# No client, and no demand of a standby: on the command line, where no file of the backup replaces it.
options="-c listen_addresses='' -c port=5432 -c unix_socket_directories='$private' -c hba_file='$private/pg_hba.conf' -c ssl=off"
options="$options -c hot_standby=off -c archive_mode=off -c synchronous_standby_names='' -c logging_collector=off"
options="$options -c restore_command='$private/fetch %f %p' -c recovery_target_action=promote -c recovery_target_timeline='$TIMELINE'"
[ -z "$moment" ] || options="$options -c recovery_target_time='$moment'"
[ -z "$CONFIG" ] || options="$options -c config_file='$CONFIG'"
as_postgres "$PG_BIN/pg_ctl" start -D "$data" -l "$private/server.log" -w -t 86400 -o "$options" >/dev/null ||
  broken
# It takes no connection until everything is replayed.
until as_postgres "$PG_BIN/pg_isready" -q -h "$private" -p 5432; do
  as_postgres "$PG_BIN/pg_ctl" status -D "$data" >/dev/null || broken
  sleep 0.2
done

# The last commit that is there; where the log had none, the beginning of the backup.
restored_to=$(ask "SELECT to_char(pg_last_xact_replay_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
[ -n "$restored_to" ] || restored_to=$(sed -n 's/^START TIME: \(.*\) \(.*\) UTC$/\1T\2Z/p' "$backup/backup_label")
[ -n "$restored_to" ] || fail "when the backup was begun is not known: its time zone is not UTC; fence by hand"

# As the owner of the tables, whether or not that role may log in: what a step makes must be the owner's.
owner=$(ask "SELECT COALESCE((SELECT tableowner FROM pg_tables WHERE tablename = 'accounts' AND schemaname = current_schema()),
  (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()))")
case $owner in *[!0-9A-Za-z_.@-]*) fail "migrate and fence by hand: the tables belong to '$owner'" ;; esac
url="postgresql://$SUPERUSER@/$DATABASE?host=$private&port=5432"
MEETCORE_DATABASE_URL="$url&options=-c%20role%3D$owner" MEETCORE_DATABASE_POOLER=none
export MEETCORE_DATABASE_URL MEETCORE_DATABASE_POOLER
unset MEETCORE_DATABASE_DIRECT_URL
$MEETCORE migrate >&2
$MEETCORE restore fence --to "$restored_to" --json
if [ -n "$KEEP_RUNNING" ]; then trap - EXIT; exit; fi

# Nothing archived it while archive_mode was off, and without it no later backup can be followed to this timeline.
for history in "$data"/pg_wal/*.history; do
  name=$(basename "$history")
  [ ! -f "$archive/$name" ] || continue
  { as_postgres cp "$history" "$archive/$name.part" && as_postgres sync "$archive/$name.part" &&
    as_postgres mv "$archive/$name.part" "$archive/$name"; } ||
    echo "restore: copy $history into $archive before the release" >&2
done
