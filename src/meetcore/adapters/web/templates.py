"""Templates: Jinja2 with autoescape, one environment for each language, and the assets of the pages.

A template that uses a name it was not given is an error, not an empty text. The addresses of assets
change with their content.
"""

import hashlib
from functools import cache, partial
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from meetcore.adapters.catalogues import format_money, translations
from meetcore.adapters.web import formats
from meetcore.adapters.web.formats import CATALOGUES, NAMES, name_browser
from meetcore.adapters.web.markup import bar_chart, render_markdown
from meetcore.adapters.web.refusals import translate_refusal
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.transcripts import format_offset

ASSETS_ROOT: Final = "/dashboard/assets"
_TYPES: Final = {"style.css": "text/css", "meetcore.js": "text/javascript", "icon.svg": "image/svg+xml"}
_WHOLE: Final = Markup('<span class="whole">{}, {}</span>')
_ASSET_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


@cache
def _content(name: str) -> tuple[bytes, str]:
    body = (Path(__file__).parent / "static" / name).read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:12]


def asset_url(name: str) -> str:
    """Return the address of an asset in its present version."""
    return f"{ASSETS_ROOT}/{_content(name)[1]}/{name}"


def asset_route() -> Route:
    """Build the route of the assets; an address of an earlier release is 404."""
    path, compressed = f"{ASSETS_ROOT}/{{digest}}/{{name}}", Middleware(GZipMiddleware)
    return Route(path, _asset, methods=["GET"], middleware=[compressed])


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _TYPES or _content(name)[1] != request.path_params["digest"]:
        raise HTTPException(404)
    return Response(_content(name)[0], headers=_ASSET_HEADERS, media_type=_TYPES[name])


def render(name: str, language: Language, values: dict[str, object]) -> str:
    """Render a template of `templates/` in a language."""
    return environment(language).get_template(name).render(values)


@cache
def environment(language: Language) -> Environment:
    """Build the environment of templates with the texts and formats of a language."""
    made = Environment(
        loader=PackageLoader("meetcore.adapters.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_translations(translations(CATALOGUES, language), newstyle=True)  # type: ignore[attr-defined]
    made.filters |= {
        "count": partial(formats.format_count, language=language),
        "change": partial(formats.format_change, language=language),
        "money": partial(format_money, language=language),
        "share": partial(formats.format_share, language=language),
        "instant": lambda at: formats.format_instant(at, language).replace(" ", "\N{NO-BREAK SPACE}"),
        "time_of_day": partial(formats.format_time_of_day, language=language),
        "moment": lambda at: _WHOLE.format(made.filters["day"](at), made.filters["time_of_day"](at)),
        "clock": partial(formats.format_clock, language=language),
        "day": partial(formats.format_day, language=language),
        "day_of_week": partial(formats.format_day_of_week, language=language),
        "month": partial(formats.format_month, language=language),
        "offset": format_offset,
        "browser": name_browser,
        "markdown": render_markdown,
        "refusal": partial(translate_refusal, language),
    }
    made.globals |= {
        "asset": asset_url,
        "bar_chart": partial(bar_chart, number=made.filters["count"]),
        "language": language.value,
        "languages": {each.value: name for each, name in NAMES.items()},
    }
    return made
