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
# Until it is fenced the server has no port: its one socket lies in a directory that only its user can enter. The data lie in
# DATA.unfenced until then; when the server is fenced and stopped, they become DATA, which can be started as usual. Where
# this fails, or is stopped by a signal, DATA.unfenced is to be removed. As root, PostgreSQL's programs run as POSTGRES_USER.
#
# Environment: MEETCORE_… (the settings of the service; the address is replaced), and
#   PG_BIN         where PostgreSQL's programs are; by the version of the backup where it is not given
#   PG_ROOT        /usr/lib/postgresql: where Debian has the programs of each version
#   CONFIG         postgresql.conf, where it is not in the data directory
#   DATABASE       meetcore
#   SUPERUSER      postgres
#   POSTGRES_USER  postgres
#   MEETCORE       the program: meetcore
#   TIMELINE       latest; "current" is that of the backup, to restore it once more to another moment
#   KEEP_RUNNING   a directory to make for the socket, and for a program "stop": the server goes on there in DATA, for the drill
#
# The history of the new timeline is copied into ARCHIVE, but not where KEEP_RUNNING is given.
set -eu
umask 077

backup=$1 archive=$2 data=$3 moment=${4:-}
: "${PG_BIN:=}" "${PG_ROOT:=/usr/lib/postgresql}" "${DATABASE:=meetcore}" "${SUPERUSER:=postgres}"
: "${POSTGRES_USER:=postgres}" "${MEETCORE:=meetcore}" "${CONFIG:=}" "${KEEP_RUNNING:=}" "${TIMELINE:=latest}"

fail() { echo "restore: $*" >&2; exit 1; }
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u "$POSTGRES_USER" -- "$@"; else "$@"; fi; }
broken() { tail -n 20 "$private/server.log" >&2; fail "the server did not come up: is the archive whole?"; }
ask() { as_postgres "$PG_BIN/psql" --no-psqlrc -qAt -h "$private" -p 5432 -U "$SUPERUSER" -d "$DATABASE" -c "$1"; }

[ -f "$backup/backup_label" ] || fail "$backup is no base backup"
[ -d "$archive" ] || fail "$archive is no directory"
[ ! -e "$data" ] || fail "$data exists: restore into a new directory"
[ -f "$backup/backup_manifest" ] || echo "restore: $backup has no backup_manifest: it may not be whole" >&2
# Their links would lead the restored server into the files of the one that was backed up.
[ -z "$(ls -A "$backup/pg_tblspc" 2>/dev/null)" ] ||
  fail "$backup has tablespaces, which this does not restore: restore it by hand, each of them into a new directory, and fence by hand"
[ ! -L "$backup/pg_wal" ] ||
  fail "$backup has pg_wal as a link, which this does not restore: put a directory with what it leads to in its place"
case $moment in *[!0-9A-Za-z:+.-]*) fail "write MOMENT as 2026-12-31T17:00:00Z" ;; esac

# Packages have the programs of each version in a directory of its own, and not in PATH.
version=$(cat "$backup/PG_VERSION")
for each in "$PG_ROOT/$version/bin" "/usr/pgsql-$version/bin" "$(dirname "$(command -v pg_ctl || echo none)")"; do
  [ -n "$PG_BIN" ] || [ ! -x "$each/pg_ctl" ] || PG_BIN=$each
done
[ -x "$PG_BIN/pg_ctl" ] || fail "the programs of PostgreSQL $version are not found: set PG_BIN"

work=$data.unfenced
[ -z "$KEEP_RUNNING" ] || work=$data
[ ! -e "$work" ] || fail "$work exists, and was never fenced: remove it"
private="" child="" is_fenced=""
finish() {
  code=$?
  trap - EXIT
  trap "" HUP INT TERM
  [ -z "$child" ] || kill "$child" 2>/dev/null || true
  as_postgres "$PG_BIN/pg_ctl" stop -D "$work" -m fast -w >/dev/null 2>&1 || true
  rm -rf "$private"
  [ -n "$is_fenced" ] || [ ! -e "$work" ] ||
    echo "restore: NOT FENCED: do not start $work, it would sell and post; remove it, and run this again" >&2
  exit "$code"
}
trap finish EXIT
trap "exit 129" HUP
trap "exit 130" INT
trap "exit 143" TERM
# So that a signal is taken at once, and not when the program has ended.
run() { "$@" & child=$!; wait "$child" || { child=""; return 1; }; child=""; }
run_as_postgres() { if [ "$(id -u)" = 0 ]; then run runuser -u "$POSTGRES_USER" -- "$@"; else run "$@"; fi; }

private=${KEEP_RUNNING:-$(mktemp -d /tmp/meetcore-restore.XXXXXX)}
mkdir -p "$private"
give_to_postgres() { if [ "$(id -u)" = 0 ]; then chown -R "$POSTGRES_USER" "$@"; fi; }
mkdir "$work"
run cp -R "$backup/." "$work/"
rm -f "$work/postmaster.pid" "$work/standby.signal"
touch "$work/recovery.signal"
printf '#!/bin/sh\nexec cp "%s/$1" "$2"\n' "$archive" >"$private/fetch"
printf '#!/bin/sh\nexec "%s/pg_ctl" stop -D "%s" -m immediate -w\n' "$PG_BIN" "$work" >"$private/stop"
chmod 700 "$private/fetch" "$private/stop"
echo 'local all all trust' >"$private/pg_hba.conf"
[ -n "$CONFIG" ] || [ -f "$work/postgresql.conf" ] || CONFIG=$private/postgresql.conf
[ "$CONFIG" != "$private/postgresql.conf" ] || touch "$CONFIG"
give_to_postgres "$work" "$private"

# "Z" is not known yet when the server reads this.
case $moment in *Z) moment=${moment%Z}+00 ;; esac
# No client, and no demand of a standby: on the command line, where no file of the backup replaces it.
options="-c listen_addresses='' -c port=5432 -c unix_socket_directories='$private' -c hba_file='$private/pg_hba.conf' -c ssl=off"
options="$options -c hot_standby=off -c archive_mode=off -c synchronous_standby_names='' -c logging_collector=off"
options="$options -c restore_command='$private/fetch %f %p' -c recovery_target_action=promote -c recovery_target_timeline='$TIMELINE'"
[ -z "$moment" ] || options="$options -c recovery_target_time='$moment'"
[ -z "$CONFIG" ] || options="$options -c config_file='$CONFIG'"
run_as_postgres "$PG_BIN/pg_ctl" start -D "$work" -l "$private/server.log" -w -t 86400 -o "$options" >/dev/null ||
  broken
# It takes no connection until everything is replayed.
until as_postgres "$PG_BIN/pg_isready" -q -h "$private" -p 5432; do
  as_postgres "$PG_BIN/pg_ctl" status -D "$work" >/dev/null || broken
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
run $MEETCORE migrate >&2
run $MEETCORE restore fence --to "$restored_to" --json
is_fenced=1
if [ -n "$KEEP_RUNNING" ]; then trap - EXIT; exit; fi
as_postgres "$PG_BIN/pg_ctl" stop -D "$work" -m fast -w -t 86400 >/dev/null ||
  fail "$work is fenced, and its server does not stop: stop it, and rename it $data"
mv -T "$work" "$data" || fail "$work is fenced: rename it $data"

# Nothing archived it while archive_mode was off, and without it no later backup can be followed to this timeline.
for history in "$data"/pg_wal/*.history; do
  name=$(basename "$history")
  [ ! -f "$archive/$name" ] || continue
  { as_postgres cp "$history" "$archive/$name.part" && as_postgres sync "$archive/$name.part" &&
    as_postgres mv "$archive/$name.part" "$archive/$name"; } ||
    echo "restore: copy $history into $archive before the release" >&2
done
