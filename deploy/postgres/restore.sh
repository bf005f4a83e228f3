#!/bin/sh
# Make a data directory that PostgreSQL brings to a moment when it is started (docs/deploying.md, restore).
#
#   restore.sh BACKUP ARCHIVE DATA [MOMENT]
#
#   BACKUP   a directory that `pg_basebackup` made (its plain format)
#   ARCHIVE  the directory into which the log (WAL) was archived
#   DATA     the new data directory: it must not exist
#   MOMENT   such as 2026-12-31T17:00:00Z; the end of the archive when it is not given
#
# As PostgreSQL's user; as root the directory is given to POSTGRES_USER (postgres).
set -eu
umask 077

backup=$1 archive=$2 data=$3 moment=${4:-}
fail() { echo "restore: $*" >&2; exit 1; }

[ -f "$backup/backup_label" ] || fail "$backup is no base backup"
[ -f "$backup/backup_manifest" ] || echo "restore: $backup has no backup_manifest: it may not be whole" >&2
[ -d "$archive" ] || fail "$archive is no directory"
archive=$(cd "$archive" && pwd) # PostgreSQL runs the command in DATA
[ ! -e "$data" ] || fail "$data exists: restore into a new directory"
# The restored server would write through them into the files of the one that was backed up.
[ -z "$(find "$backup/pg_tblspc" "$backup/pg_wal" -type l -print -quit)" ] ||
  fail "$backup has tablespaces, or pg_wal as a link: restore it by hand"
case $moment in *[!0-9A-Za-z:+.-]*) fail "write MOMENT as 2026-12-31T17:00:00Z" ;; esac
# "Z" is not known yet when the server reads this.
case $moment in *Z) moment=${moment%Z}+00 ;; esac

mkdir "$data"
touch "$data/recovery.signal" # first: what an interrupted copy leaves does not start
cp -R "$backup/." "$data/"
rm -f "$data/postmaster.pid" "$data/standby.signal"
cat >>"$data/postgresql.auto.conf" <<END
restore_command = 'cp "$archive/%f" "%p"'
recovery_target_time = '$moment'
recovery_target_action = promote
END
[ "$(id -u)" != 0 ] || chown -R "${POSTGRES_USER:-postgres}" "$data"
