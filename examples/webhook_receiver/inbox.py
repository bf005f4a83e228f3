"""The inbox: verified events in a table, each under its id once, handled after the sender has its answer.

Owns remembering. An event is on disk before `put` returns, so that a 204 is never given for what a crash
could lose. Verification and event contents are handled elsewhere.

An event is handled again only when the process dies between the handling and the note that it is done; work
that must not happen twice even then belongs in the same database, in one transaction with that note. Ids are
kept for ever here: with many events, delete handled ones after a week, for the sender has given up by then.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

__all__ = ["Inbox"]


class Inbox:
    """Events that arrived, in a SQLite file. Any thread may put; one handles."""

    def __init__(self, path: Path) -> None:
        self._lock, self._arrived = Lock(), Event()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
            " body BLOB NOT NULL, tries INTEGER NOT NULL DEFAULT 0, is_handled INTEGER NOT NULL DEFAULT 0)"
        )
        self._database.execute(
            "CREATE INDEX IF NOT EXISTS open_events ON events (tries, number) WHERE NOT is_handled"
        )

    def put(self, event_id: str, body: bytes) -> bool:
        """Store an event; return whether it is new."""
        with self._lock:
            # The unique id decides: two deliveries at once cannot both be new.
            added = self._database.execute(
                "INSERT INTO events (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING", (event_id, body)
            )
        self._arrived.set()
        return added.rowcount == 1

    def handle_next(self, handle: Callable[[bytes], None]) -> bool:
        """Handle one event, while deliveries go on being taken; return whether there was one.

        Whatever `handle` raises comes through, and the event goes behind those that were tried less often.
        """
        with self._lock:
            found = self._database.execute(
                "UPDATE events SET tries = tries + 1 WHERE number ="
                " (SELECT number FROM events WHERE NOT is_handled ORDER BY tries, number LIMIT 1)"
                " RETURNING number, body"
            ).fetchone()
        if found is None:
            return False
        number, body = found
        handle(body)
        with self._lock:
            self._database.execute("UPDATE events SET is_handled = 1 WHERE number = ?", (number,))
        return True

    def wait(self, seconds: float) -> None:
        """Sleep until something arrives, at most this long."""
        self._arrived.wait(seconds)
        self._arrived.clear()

    def close(self) -> None:
        """Close the file."""
        self._database.close()
