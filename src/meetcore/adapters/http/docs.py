"""The documentation that the program serves, without a key, without scripts and without third-party resources.

`/docs` is the index of the API reference and `/docs/api/<operation>` a page of it, `/docs/errors/<code>` the page
behind each `error.docs_url`; the others are pages of `docs/`, which the build of the wheel puts into `pages/`.
All are written in Markdown and have one layout. Links are relative, so that all of it holds below a path, too.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from meetcore.adapters.api.answers import STATUS
from meetcore.adapters.catalogues import choose_language
from meetcore.adapters.http.error_pages import ERROR_PAGES
from meetcore.adapters.http.reference import Reference
from meetcore.domain.notes.notes import Language

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

PAGES: Final = {
    "integrating": "Integrate in ten minutes",
    "webhooks": "Webhooks",
    "notulen": "Recordings and notes",
    "client": "Python client",
    "agents": "Agents",
    "limits": "Limits and prices",
    "compatibility": "What may change",
    "changelog": "Changelog",
}
"""The texts, and what links to them say."""

_PLACEHOLDER: Final = "https://meet.example.com"
"""The address of the service in the texts; a page has that of this one instead."""

_STYLE: Final = (Path(__file__).parent / "static" / "docs.css").read_text("utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "public, max-age=300",
}


class DocsPages:
    """The pages under `/docs`, and `/`, which redirects there unless the dashboard has a page at it.

    `document` gives the OpenAPI document of today. `contact` is an e-mail or `https://` address for questions, or
    empty. With a dashboard, each page links to it, and each operation to the page on which it can be tried.
    """

    def __init__(
        self, document: Callable[[], bytes], base_url: str, contact: str = "", *, has_dashboard: bool = False
    ) -> None:
        self._document = document
        self._base_url = base_url
        self._contact = contact
        self._has_dashboard = has_dashboard
        self._try_it = "../../dashboard/playground/{}" if has_dashboard else ""
        self._of_document = lru_cache(maxsize=1)(self._read)
        self._rendered = lru_cache(maxsize=128)(_render)

    @property
    def routes(self) -> list[Route]:
        """The routes of the pages."""
        return [
            Route("/", _root),
            Route("/docs", self._index),
            Route("/docs/api/{name}", self._operation),
            Route("/docs/errors", self._errors),
            Route("/docs/errors/{code}", self._error),
            *(Route(f"/docs/{name}", self._text) for name in PAGES),
        ]

    def _read(self, document: bytes) -> Reference:
        return Reference(document, self._try_it)

    def _reference(self) -> Reference:
        return self._of_document(self._document())

    async def _index(self, request: Request) -> Response:
        return self._page(request, "API reference", self._reference().index())

    async def _operation(self, request: Request) -> Response:
        name, reference = request.path_params["name"], self._reference()
        try:
            title = reference.title(name)
        except KeyError:
            lost = "# No such operation\n\nSee [all operations](../../docs)."
            return self._page(request, "No such operation", lost, 404)
        return self._page(request, title, reference.page(name))

    async def _errors(self, request: Request) -> Response:
        return self._page(request, "Error codes", _error_index())

    async def _error(self, request: Request) -> Response:
        code = request.path_params["code"]
        if code not in ERROR_PAGES:
            lost = "# No such code\n\nSee [all error codes](../errors)."
            return self._page(request, "No such code", lost, 404)
        return self._page(request, code, _error_text(code))

    async def _text(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        text = page_source(name).replace(_PLACEHOLDER, self._base_url)
        return self._page(request, PAGES[name], text, is_text=True)

    def _page(
        self, request: Request, title: str, markdown: str, status: int = 200, *, is_text: bool = False
    ) -> Response:
        """Build a page in the common layout."""
        path = request.scope["path"]
        up = {1: "docs/", 2: ""}.get(path.count("/"), "../")
        links = {f"{up}../docs" if up != "docs/" else "docs": "API reference"}
        links |= {f"{up}{name}": text for name, text in {**PAGES, "errors": "Errors"}.items()}
        if self._has_dashboard:
            links["dashboard" if up == "docs/" else f"{up}../dashboard"] = "Dashboard"
        html = _LAYOUT.format(
            title=escape(title), style=_STYLE, links=_links(links, title), body=self._rendered(markdown, is_text),
            contact=_contact_link(self._contact), **_FRAME[Language.ENGLISH],
        )  # fmt: skip
        return HTMLResponse(html, status, _HEADERS)


async def answer_lost(request: Request, _: Exception) -> Response:
    """Answer a request for an address at which there is nothing: with a page for a browser."""
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse("Not Found", 404)
    language = choose_language(None, request.headers.get("accept-language", ""))
    title, text, start, docs = _LOST[language]
    up = "../" * (request.scope["path"].count("/") - 1)
    html = _LAYOUT.format(
        title=title, style=_STYLE, links=_links({up or "./": start, f"{up}docs": docs}, ""), contact="",
        body=f"<h1>{title}</h1><p>{text}</p>", **_FRAME[language],
    )  # fmt: skip
    return HTMLResponse(html, 404, _HEADERS | {"Cache-Control": "no-store"})


_LOST: Final = {
    Language.ENGLISH: ("Not found", "There is nothing at this address.", "Start page", "API reference"),
    Language.INDONESIAN: (
        "Tidak ditemukan", "Tidak ada apa pun di alamat ini.", "Halaman awal", "Referensi API"
    ),
}  # fmt: skip
"""The texts of the page for an unknown address: title, text, and the names of its links."""
_FRAME: Final = {
    Language.ENGLISH: {"language": "en", "skip": "Skip to the content", "label": "Documentation"},
    Language.INDONESIAN: {"language": "id", "skip": "Langsung ke isi", "label": "Dokumentasi"},
}
"""The texts of the layout."""
_LAYOUT: Final = (
    '<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>{title} · meetcore</title>'
    '<meta name="viewport" content="width=device-width,initial-scale=1"><style>{style}</style></head><body>'
    '<a class="skip" href="#content">{skip}</a><header><nav aria-label="{label}"><b>meetcore</b>'
    '{links}</nav></header><main id="content" tabindex="-1">{body}</main>{contact}</body></html>'
)


def _links(links: Mapping[str, str], title: str) -> str:
    current = 'aria-current="page" '
    return "".join(
        f'<a {current if text == title else ""}href="{path}">{text}</a>' for path, text in links.items()
    )


def _contact_link(contact: str) -> str:
    if not contact:
        return ""
    target = contact if contact.startswith("https:") else f"mailto:{contact}"
    return f'<footer><p>Help: <a href="{escape(target)}">{escape(contact)}</a></p></footer>'


def page_source(name: str) -> str:
    """Return the Markdown source of a page: of the wheel, or of the checkout that is installed editable."""
    here = Path(__file__)
    root, file = here.parents[4], f"{name}.md"
    places = (here.parent / "pages" / file, root / "docs" / file, root / file.upper().replace(".MD", ".md"))
    return next(place for place in places if place.exists()).read_text("utf-8")


async def _root(_: Request) -> Response:
    return RedirectResponse("docs", 307)


def _error_index() -> str:
    rows = "\n".join(
        f"| [`{code}`](errors/{code}) | {STATUS[code]} | {page.meaning.replace('|', chr(92) + '|')} |"
        for code, page in ERROR_PAGES.items()
    )
    return (
        "# Error codes\n\nBranch on `error.code`: it is a contract. The message is for people and may change.\n\n"
        f"| Code | Status | Means |\n| --- | --- | --- |\n{rows}"
    )


def _error_text(code: str) -> str:
    page = ERROR_PAGES[code]
    parts = {
        "What it means": page.meaning,
        "What to do": page.remedy,
        "Does a retry help?": page.retry,
        "error.details": page.details,
    }
    sections = "".join(f"\n\n## {title}\n\n{_plain(text)}" for title, text in parts.items())
    return f"# {_plain(code)}\n\nStatus {STATUS[code]}. [All error codes](../errors){sections}"


def _plain(text: str) -> str:
    """Escape a text whose characters mean nothing in Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text)


@cache
def _parser() -> "MarkdownIt":
    # Who reads no page pays for no parser.
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _render(markdown: str, is_text: bool) -> str:
    """Render Markdown: cells of a table name their column, long lines can be scrolled by keyboard."""
    parser = _parser()
    tokens = parser.parse(_COMMENT.sub("", _NOT_SERVED.sub("", markdown)))
    heads: list[str] = []
    column = 0
    for token, content in pairwise(tokens):
        if token.type == "thead_open":
            heads = []
        elif token.type == "tr_open":
            column = 0
        elif token.type == "th_open":
            heads.append(content.content)
        elif token.type == "td_open":
            if column:  # the first cell is the row's name
                token.attrSet("data-is", heads[column].replace("`", ""))
            column += 1
    html: str = parser.renderer.render(tokens, parser.options, {})
    html = html.replace("<table>", '<div class="wide"><table class="rows">').replace(
        "</table>", "</table></div>"
    )
    html = html.replace("<pre>", '<pre tabindex="0">')
    return _HEADING.sub(_with_id, _LINK.sub(_served, html) if is_text else html)


_NOT_SERVED: Final = re.compile(r"^<!-- not served -->$.*?(?:^<!-- served -->$|\Z)", re.DOTALL | re.MULTILINE)
"""A part of a text for those who run the service."""
_COMMENT: Final = re.compile(r"^<!--.*?-->$", re.MULTILINE)
_LINK: Final = re.compile(r'<a href="(?![a-z]+:|#)([^"]*)">(.*?)</a>', re.DOTALL)
_HEADING: Final = re.compile(r"<(h[23])>(.*?)</h[23]>")


def _served(link: re.Match[str]) -> str:
    """Let a link between texts lead to the page; one to a file that is not served keeps its words alone."""
    file, _, anchor = link[1].removeprefix("docs/").partition("#")
    name = file.removesuffix(".md")
    if name not in {*PAGES, "errors"}:
        return link[2]
    return f'<a href="{name}{"#" if anchor else ""}{anchor}">{link[2]}</a>'


def _with_id(heading: re.Match[str]) -> str:
    """Give a heading the id that links to it use, as on GitHub."""
    text = re.sub(r"<[^>]+>|&\w+;", "", heading[2]).lower()
    id_ = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
    return f'<{heading[1]} id="{id_}">{heading[2]}</{heading[1]}>'
