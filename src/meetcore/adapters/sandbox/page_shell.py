"""The frame of the sandbox's pages: headers, style, and the document around their content."""

from functools import cache
from importlib import resources
from typing import Final

from starlette.requests import Request

from meetcore.adapters.catalogues import choose_language
from meetcore.domain.notes.notes import Language

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    # The URL holds the token.
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@cache
def template(name: str) -> str:
    """Return a part of a page of `html/`, with `{names}` of what is to be filled in."""
    return resources.files(__package__).joinpath("html", name).read_text("utf-8")


def page_language(request: Request) -> Language:
    """Return the language of a page: the one that the browser asks for."""
    return choose_language(None, request.headers.get("accept-language", ""))


def render_page(title: str, content: str, language: str = "en") -> str:
    """Return the document of a page; title and content are HTML, escaped by the caller."""
    return template("page.html").format(
        title=title, style=template("style.css"), content=content, language=language
    )
