"""The style sheet and the script of the pages, at addresses that change with their content."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

ASSETS_ROOT: Final = "/dashboard/assets"
_TYPES: Final = {"style.css": "text/css", "meetcore.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


@cache
def _content(name: str) -> tuple[bytes, str]:
    body = (Path(__file__).parent / "static" / name).read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:12]


def asset_url(name: str) -> str:
    """The address of an asset as it is now."""
    return f"{ASSETS_ROOT}/{_content(name)[1]}/{name}"


def asset_route() -> Route:
    """Build the route of the assets; an address of an earlier release is 404."""
    return Route(f"{ASSETS_ROOT}/{{digest}}/{{name}}", _asset, methods=["GET"])


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _TYPES or _content(name)[1] != request.path_params["digest"]:
        raise HTTPException(404)
    return Response(_content(name)[0], headers=_HEADERS, media_type=_TYPES[name])
