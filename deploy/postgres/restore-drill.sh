#!/bin/sh
# Restore the newest backup into a directory of its own, look at what came of it, and remove it again (docs/restore.md).
#
#   restore-drill.sh BACKUPS ARCHIVE
#
#   BACKUPS  a directory of base backups, each a directory
#   ARCHIVE  the directory into which the log (WAL) is archived
#
# Ends with 1 where the backup does not start, the ledger is not sound, the fence does not stand, or the archive is older than
# MAX_AGE_S (3600). It prints what a restore would lose at this moment. At the provider it only reads.
# Environment: as of restore.sh, beside this file, and SCRATCH, a directory with room for a database.
set -eu
umask 077

backups=$1 archive=$2
: "${MAX_AGE_S:=3600}" "${MEETCORE:=meetcore}" "${PG_BIN:=$(dirname "$(command -v pg_ctl || echo /usr/bin/pg_ctl)")}"
: "${DATABASE:=meetcore}" "${SUPERUSER:=postgres}" "${POSTGRES_USER:=postgres}"
here=$(dirname "$(readlink -f "$0")")

fail() { echo "restore drill: $*" >&2; exit 1; }
as_postgres() { if [ "$(id -u)" = 0 ]; then runuser -u "$POSTGRES_USER" -- "$@"; else "$@"; fi; }

newest=$(ls -td "$backups"/*/ 2>/dev/null | head -n 1)
[ -n "$newest" ] || fail "$backups has no backup"
work=$(mktemp -d "${SCRATCH:-/tmp}/meetcore-drill.XXXXXX")
if [ "$(id -u)" = 0 ]; then chown "$POSTGRES_USER" "$work"; fi
private=$(mktemp -d /tmp/meetcore-drill.XXXXXX)
remove() {
  as_postgres "$PG_BIN/pg_ctl" stop -D "$work/data" -m immediate -w >/dev/null 2>&1 || true
  rm -rf "$work" "$private"
}
trap remove EXIT

KEEP_RUNNING=$private "$here/restore.sh" "${newest%/}" "$archive" "$work/data" >"$work/fence.json"
MEETCORE_DATABASE_URL="postgresql://$SUPERUSER@/$DATABASE?host=$private&port=5432" MEETCORE_DATABASE_POOLER=none
export MEETCORE_DATABASE_URL MEETCORE_DATABASE_POOLER
$MEETCORE restore status --json >"$work/status.json"
grep -q '"is_fenced": true' "$work/status.json" || fail "the restored database is not fenced"
$MEETCORE credits verify --json || fail "the restored ledger is not sound"
$MEETCORE restore reconcile --json || fail "the provider's lists cannot be read"
restored_to=$(sed -n 's/.*"restored_to": "\([^"]*\)".*/\1/p' "$work/status.json")
age_s=$(($(date +%s) - $(date -d "$restored_to" +%s)))
echo "restore drill: $newest restored to $restored_to, $age_s s ago" >&2
[ "$age_s" -le "$MAX_AGE_S" ] || fail "the archive ends $age_s s ago, more than $MAX_AGE_S"
