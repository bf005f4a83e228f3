"""The documentation that the program serves, without a key and without third-party resources.

`/docs` is the API reference, `/docs/errors/<code>` the page behind each `error.docs_url`, the others are pages of
`docs/`, which the build of the wheel puts into `pages/`. Links are relative, so that all of it holds below a path, too.
The viewer's package is never imported: its files are sent from the disk and held in no memory.
"""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.api.answers import STATUS
from meetcore.adapters.api.operation import API_ROOT, Operation
from meetcore.adapters.http.error_pages import ERROR_PAGES

_VIEWER: Final = "stopments"
_FILES: Final = {"elements.js": "web-components.min.js", "elements.css": "styles.min.css"}
"""The names of the viewer's files here and in its package."""

# The viewer writes style attributes and holds its icons in data: addresses.
# It runs no text as code, and talks to us only.
# The static paragraph shows until the viewer's element is defined.
_REFERENCE_HEADERS: Final = {
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
_REFERENCE: Final = """<!doctype html>
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
<a href="docs/compatibility">What may change</a><a href="docs/errors">Errors</a>
<a href=".{root}/openapi.json">OpenAPI</a></header>
<elements-api apiDescriptionUrl=".{root}/openapi.json" router="hash" layout="responsive" hideSchemas="true"
 tryItCredentialsPolicy="omit"></elements-api>
<p class="static">The reference of the API appears here when its viewer has loaded. What it shows is in
<a href=".{root}/openapi.json">the OpenAPI document</a>; <a href="docs/integrating">Integrate in ten minutes</a>
is the guide.</p>
<noscript>{listed}</noscript></body></html>
"""


@cache
def _directory() -> Path | None:
    spec = find_spec(_VIEWER)
    for place in (spec and spec.submodule_search_locations) or ():
        directory = Path(place) / "static"
        if all((directory / name).is_file() for name in _FILES.values()):
            return directory
    return None


def reference_page(listed: str) -> Response | None:
    """Return the page, or `None` without a viewer; operations are listed for a browser without scripts."""
    if _directory() is None:
        return None
    return HTMLResponse(_REFERENCE.format(root=API_ROOT, listed=listed), headers=_REFERENCE_HEADERS)


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


PAGES: Final = {
    "integrating": "Integrate in ten minutes",
    "webhooks": "Webhooks",
    "notulen": "Recordings and notes",
    "compatibility": "What may change",
}
"""The texts, and what links to them say."""

_REFERENCE_FROM: Final = {"docs/": "docs", "": "../docs", "../": "../../docs"}
"""The way to the reference, by the way to the other pages."""

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--paper:#fff;--soft:#f2f4f7;--line:#d8dee6;--link:#0b57d0;--dim:#5a6675}
@media(prefers-color-scheme:dark){:root{--ink:#dde3ea;--paper:#12161c;--soft:#1d242d;--line:#333d49;--link:#8ab4f8;--dim:#9aa7b5}}
*{box-sizing:border-box}
body{font:16px/1.6 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--paper)}
header{border-bottom:1px solid var(--line)}
header nav,main{max-width:54rem;margin:0 auto;padding:.8rem 1rem}
header nav{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}header b{margin-right:auto}
main{padding-bottom:4rem}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.15rem;margin-top:2rem}a{color:var(--link)}
code{font:.9em ui-monospace,monospace;background:var(--soft);padding:.1em .35em;border-radius:4px;
overflow-wrap:anywhere}
pre{background:var(--soft);padding:.8rem 1rem;border-radius:6px;overflow-x:auto;line-height:1.45}
pre code{padding:0;background:none;overflow-wrap:normal}
.wide{overflow-x:auto}table{border-collapse:collapse}
td,th{text-align:left;padding:.4rem 1.2rem .4rem 0;vertical-align:top;border-bottom:1px solid var(--line)}
td:first-child code{white-space:nowrap}
@media(max-width:40rem){
td:first-child code{white-space:normal}
.rows,.rows tbody,.rows tr,.rows td{display:block}.rows tr:has(th){display:none}
.rows tr{padding:.7rem 0;border-bottom:1px solid var(--line)}.rows td{padding:.1rem 0;border:0}
.rows td[data-is]::before{content:attr(data-is) " ";color:var(--dim)}}
"""


def docs_routes(table: Sequence[Operation]) -> list[Route]:
    """Return the routes under `/docs`, and `/`, which redirects there unless the dashboard has a page at it."""
    listed = _operations(table)
    reference = reference_page(listed)

    async def docs(_: Request) -> Response:
        if reference is None:  # the package with the viewer is not installed
            return _page("meetcore", f"<h1>meetcore</h1>{listed}", up="docs/")
        return HTMLResponse(reference.body, headers=_REFERENCE_HEADERS)  # a middleware changes its headers

    return [
        Route("/", _root),
        Route("/docs", docs),
        *reference_routes(),
        Route("/docs/errors", _errors),
        Route("/docs/errors/{code}", _error),
        *(Route(f"/docs/{name}", _text) for name in PAGES),
    ]


def page_source(name: str) -> str:
    """Return the Markdown source of a page: of the wheel, or of the checkout that is installed editable."""
    here = Path(__file__)
    packaged = here.parent / "pages" / f"{name}.md"
    return (packaged if packaged.exists() else here.parents[4] / "docs" / packaged.name).read_text("utf-8")


def _operations(table: Sequence[Operation]) -> str:
    rows = "".join(
        f"<tr><td><code>{each.method} {escape(each.path)}</code></td><td>{escape(each.summary)}</td>"
        f'<td data-is="Scope">{_scopes_of(each)}</td></tr>'
        for each in table
    )
    return (
        f"<p>The operations, under <code>{API_ROOT}</code>. "
        f'<a href=".{API_ROOT}/openapi.json">OpenAPI document</a>.</p>'
        f'<div class="wide"><table class="rows"><tr><th>Operation</th><th>Does</th><th>Scope</th></tr>{rows}</table></div>'
    )


def _scopes_of(operation: Operation) -> str:
    return " or ".join(f"<code>{scope.value}</code>" for scope in operation.scopes) or "any key"


async def _root(_: Request) -> Response:
    return RedirectResponse("docs", 307)


async def _errors(_: Request) -> Response:
    rows = "".join(
        f'<tr><td><a href="errors/{code}"><code>{code}</code></a></td><td data-is="Status">{STATUS[code]}</td>'
        f"<td>{escape(page.meaning)}</td></tr>"
        for code, page in ERROR_PAGES.items()
    )
    heads = "<tr><th>Code</th><th>Status</th><th>Means</th></tr>"
    table = f'<div class="wide"><table class="rows">{heads}{rows}</table></div>'
    lead = "<p>Branch on <code>error.code</code>: it is a contract. The message is for people and may change.</p>"
    return _page("Error codes", f"<h1>Error codes</h1>{lead}{table}")


async def _error(request: Request) -> Response:
    code = request.path_params["code"]
    page = ERROR_PAGES.get(code)
    if page is None:
        lost = '<h1>No such code</h1><p>See <a href="../errors">all error codes</a>.</p>'
        return _page("No such code", lost, 404, up="../")
    parts = (
        ("What it means", page.meaning),
        ("What to do", page.remedy),
        ("Does a retry help?", page.retry),
        ("error.details", page.details),
    )
    sections = "".join(f"<h2>{escape(title)}</h2><p>{escape(text)}</p>" for title, text in parts)
    head = f'<h1>{code}</h1><p>Status {STATUS[code]}. <a href="../errors">All error codes</a></p>'
    return _page(code, head + sections, up="../")


async def _text(request: Request) -> Response:
    name = request.url.path.rpartition("/")[2]
    return _page(PAGES[name], _rendered(name))


@cache
def _rendered(name: str) -> str:
    # Only who reads a page pays for the parser.
    from markdown_it import MarkdownIt

    html: str = (
        MarkdownIt("commonmark", {"html": False}).enable("table").render(_without_comments(page_source(name)))
    )
    html = html.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return _HEADING.sub(_with_id, html.replace('.md"', '"'))


_HEADING: Final = re.compile(r"<(h[23])>(.*?)</h[23]>")


def _with_id(heading: re.Match[str]) -> str:
    """Give a heading the id that links to it use, as on GitHub."""
    text = re.sub(r"<[^>]+>|&\w+;", "", heading[2]).lower()
    id_ = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
    return f'<{heading[1]} id="{id_}">{heading[2]}</{heading[1]}>'


def _without_comments(source: str) -> str:
    return "".join(line for line in source.splitlines(keepends=True) if not line.startswith("<!--"))


def _page(title: str, body: str, status: int = 200, up: str = "") -> Response:
    """Build a page in the common layout; `up` is its relative path to `/docs`."""
    links = "".join(
        f'<a href="{up}{name}">{text}</a>' for name, text in {**PAGES, "errors": "Errors"}.items()
    )
    html = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head><body>'
        f'<header><nav><b>meetcore</b><a href="{_REFERENCE_FROM[up]}">API reference</a>{links}</nav></header>'
        f"<main>{body}</main></body></html>"
    )
    return HTMLResponse(html, status, _HEADERS)
