#!/bin/sh
# Restore the newest backup into a directory of its own, look at what came of it, and remove it again (docs/restore.md).
#
#   restore-drill.sh BACKUPS ARCHIVE
#
#   BACKUPS  a directory of base backups, each a directory; one that is still being made is passed over
#   ARCHIVE  the directory into which the log (WAL) is archived
#
# Ends with 1 where the backup does not start, the ledger is not sound, the fence does not stand, or the archive is older than
# MAX_AGE_S (3600). It prints what a restore would lose at this moment. At the provider it only reads.
# Environment: as of restore.sh, beside this file, and SCRATCH, a directory with room for a database (/tmp). What a drill left
# there that was killed is removed.
set -eu
umask 077

backups=$1 archive=$2
: "${MAX_AGE_S:=3600}" "${MEETCORE:=meetcore}" "${SCRATCH:=/tmp}"
: "${DATABASE:=meetcore}" "${SUPERUSER:=postgres}" "${POSTGRES_USER:=postgres}"
here=$(dirname "$(readlink -f "$0")")

fail() { echo "restore drill: $*" >&2; exit 1; }
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u "$POSTGRES_USER" -- "$@"; else "$@"; fi; }
# So that a signal is taken at once, and not when the program has ended.
run() { "$@" 9<&- & child=$!; wait "$child" || { child=""; return 1; }; child=""; }

newest=$(ls -td "$backups"/*/ 2>/dev/null | while IFS= read -r each; do
  if [ -f "$each/backup_manifest" ]; then echo "$each"; break; fi
done)
[ -n "$newest" ] || fail "$backups has no whole backup: pg_basebackup writes backup_manifest when all is there"

exec 9<"$SCRATCH"
flock -n 9 || fail "another drill works in $SCRATCH"
# Stop the server of a drill, and remove its directories.
clear_away() {
  socket=$(cat "$1/socket" 2>/dev/null || true)
  case ${socket#/tmp/meetcore-drill-socket.} in "$socket" | */*) socket="" ;; esac
  if [ -n "$socket" ] && [ -x "$socket/stop" ]; then as_postgres "$socket/stop" >/dev/null 2>&1 || true; fi
  rm -rf "$1" "$socket"
}
owner=$(id -u)
[ "$owner" != 0 ] || owner=$(id -u "$POSTGRES_USER")
find "$SCRATCH" -maxdepth 1 -type d -name "meetcore-drill.*" -user "$owner" | while IFS= read -r old; do
  clear_away "$old"
done

work="" child=""
finish() {
  code=$?
  trap - EXIT
  trap "" HUP INT TERM
  if [ -n "$child" ] && kill "$child" 2>/dev/null; then wait "$child" || true; fi
  [ -z "$work" ] || clear_away "$work"
  exit "$code"
}
trap finish EXIT
trap "exit 129" HUP
trap "exit 130" INT
trap "exit 143" TERM
work=$(mktemp -d "$SCRATCH/meetcore-drill.XXXXXX")
private=$(mktemp -d /tmp/meetcore-drill-socket.XXXXXX)
echo "$private" >"$work/socket"
if [ "$(id -u)" = 0 ]; then chown "$POSTGRES_USER" "$work"; fi

run env KEEP_RUNNING="$private" "$here/restore.sh" "${newest%/}" "$archive" "$work/data" >"$work/fence.json"
MEETCORE_DATABASE_URL="postgresql://$SUPERUSER@/$DATABASE?host=$private&port=5432" MEETCORE_DATABASE_POOLER=none
export MEETCORE_DATABASE_URL MEETCORE_DATABASE_POOLER
run $MEETCORE restore status --json >"$work/status.json"
grep -q '"is_fenced": true' "$work/status.json" || fail "the restored database is not fenced"
run $MEETCORE credits verify --json || fail "the restored ledger is not sound"
run $MEETCORE restore reconcile --json || fail "the provider's lists cannot be read"
restored_to=$(sed -n 's/.*"restored_to": "\([^"]*\)".*/\1/p' "$work/status.json")
age_s=$(($(date +%s) - $(date -d "$restored_to" +%s)))
echo "restore drill: $newest restored to $restored_to, $age_s s ago" >&2
[ "$age_s" -le "$MAX_AGE_S" ] || fail "the archive ends $age_s s ago, more than $MAX_AGE_S"
