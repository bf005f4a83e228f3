"""How `serve` and `dev` run uvicorn."""

from collections.abc import Mapping
from typing import Any, Final

SERVER_OPTIONS: Final[Mapping[str, Any]] = {
    "http": "meetcore.adapters.http.protocol:BoundedHttpProtocol",
    "ws": "none",  # nothing here speaks WebSocket, and its protocol would be without bounds
    "proxy_headers": False,  # `MEETCORE_TRUSTED_PROXIES` decides who may name a client
    "lifespan": "on",
    "access_log": False,
    "server_header": False,
    "log_level": "warning",
}
