"""The API reference at `/docs`: a viewer from a package, for `/api/v1/openapi.json`.

Owns where the viewer's files are and what the page may do. Its package is never imported: its files are
looked up and sent from the disk, so that the service holds none of it in memory.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from meetcore.adapters.api.operation import API_ROOT

_PACKAGE: Final = "stopments"
_FILES: Final = {"elements.js": "web-components.min.js", "elements.css": "styles.min.css"}
"""What we call the viewer's files, and what its package does."""

# The viewer writes style attributes and holds its icons in data: addresses.
# It runs no text as code, and talks to us only.
# The static paragraph shows until the viewer's element is defined.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_KEPT: Final = {"Cache-Control": "public, max-age=86400", "X-Content-Type-Options": "nosniff"}
_THEME: Final = """// The viewer's colours follow the attribute data-theme alone; the page's follow the system.
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
dark.addEventListener("change", follow);
follow();
"""
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>meetcore API</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="stylesheet" href="docs/assets/elements.css">
<script src="docs/assets/theme.js"></script>
<style>:root{{color-scheme:light dark;--line:#d8dee6;--link:#0b57d0}}
@media(prefers-color-scheme:dark){{:root{{--line:#333d49;--link:#8ab4f8;background:#12161c;color:#dde3ea}}}}
html,body{{height:100%;margin:0}}body{{display:flex;flex-direction:column;font:16px/1.5 system-ui,sans-serif}}
header{{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:.6rem 1rem;border-bottom:1px solid var(--line)}}
header b{{margin-right:auto}}header a{{color:var(--link)}}elements-api{{flex:1;min-height:0;display:block}}
noscript{{padding:1rem}}.static{{padding:0 1rem;display:none}}
elements-api:not(:defined){{display:none}}elements-api:not(:defined)~.static{{display:block}}</style>
<script src="docs/assets/elements.js" defer></script></head>
<body><header><b>meetcore</b><a href="docs/integrating">Integrate in ten minutes</a>
<a href="docs/webhooks">Webhooks</a><a href="docs/notulen">Recordings and notes</a>
<a href="docs/errors">Errors</a><a href=".{root}/openapi.json">OpenAPI</a></header>
<elements-api apiDescriptionUrl=".{root}/openapi.json" router="hash" layout="responsive" hideSchemas="true"
 tryItCredentialsPolicy="omit"></elements-api>
<p class="static">The reference of the API appears here when its viewer has loaded. What it shows is in
<a href=".{root}/openapi.json">the OpenAPI document</a>; <a href="docs/integrating">Integrate in ten minutes</a>
is the guide.</p>
<noscript>{listed}</noscript></body></html>
"""


@cache
def _directory() -> Path | None:
    spec = find_spec(_PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        directory = Path(place) / "static"
        if all((directory / name).is_file() for name in _FILES.values()):
            return directory
    return None


def reference_page(listed: str) -> Response | None:
    """Return the page, or `None` if the viewer is not installed.

    Args:
        listed: the operations as HTML, for a browser without scripts.
    """
    if _directory() is None:
        return None
    return HTMLResponse(_PAGE.format(root=API_ROOT, listed=listed), headers=_HEADERS)


def reference_routes() -> list[Route]:
    """Return the routes of the viewer's files."""
    directory = _directory()
    if directory is None:
        return []
    return [
        Route("/docs/assets/theme.js", _theme),
        *(_file_route(*each, directory) for each in _FILES.items()),
    ]


async def _theme(_: Request) -> Response:
    return Response(_THEME, headers=_KEPT, media_type="text/javascript")


def _file_route(name: str, file: str, directory: Path) -> Route:
    async def send(_: Request) -> Response:
        return FileResponse(directory / file, headers=_KEPT)

    return Route(f"/docs/assets/{name}", send)
