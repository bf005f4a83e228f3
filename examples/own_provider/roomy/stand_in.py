"""A stand-in for Roomy, for tests: `python -m roomy.stand_in` prints its address."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "a-token"  # noqa: S105  (of a stand-in)


class StandIn(ThreadingHTTPServer):
    """Rooms by their ids, in memory; an id is the reference that the room was made under."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.rooms: dict[str, dict[str, object]] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"

    def reply(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        """Carry out one request; return its status and its body."""
        kind, _, rest = path.strip("/").partition("/")
        room_id, _, action = rest.partition("/")
        with self.lock:
            match method, kind, action:
                case "GET", "owner", "":
                    return 200, {"name": "Sari"}
                case "PUT", "rooms", "":
                    made = {"id": room_id, "url": f"https://roomy.example/r/{room_id}", **json.loads(body)}
                    return 200, self.rooms.setdefault(room_id, made)
                case _ if kind != "rooms" or room_id not in self.rooms:
                    return 404, {}
                case "GET", _, "":
                    return 200, self.rooms[room_id]
                case "DELETE", _, "":
                    del self.rooms[room_id]
                    return 200, {"state": "removed"}
                case _:
                    return 200, {}


class Handler(BaseHTTPRequestHandler):
    """Answers over HTTP/1.1."""

    server: StandIn
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        """Answer one request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_ours = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        status, found = self.server.reply(self.command, self.path, body) if is_ours else (401, {})
        sent = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815  (the names of the library)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def roomy_stand_in() -> Iterator[StandIn]:
    """Run a stand-in on loopback."""
    with StandIn() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


if __name__ == "__main__":
    with StandIn() as server:
        print(server.url, flush=True)  # noqa: T201
        server.serve_forever()
