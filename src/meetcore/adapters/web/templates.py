"""Templates: Jinja2 with autoescape, one environment for each language.

A template that uses a name it was not given is an error, not an empty text.
"""

from functools import cache, partial

from jinja2 import Environment, PackageLoader, StrictUndefined

from meetcore.adapters.catalogues import translations
from meetcore.adapters.web import formats
from meetcore.adapters.web.assets import asset_url
from meetcore.adapters.web.browsers import name_browser
from meetcore.adapters.web.charts import bar_chart
from meetcore.adapters.web.languages import CATALOGUES, NAMES
from meetcore.adapters.web.markdown import render_markdown
from meetcore.domain.notes.notes import Language


def render(name: str, language: Language, values: dict[str, object]) -> str:
    """Render a template of `templates/` in a language."""
    return environment(language).get_template(name).render(values)


@cache
def environment(language: Language) -> Environment:
    """The templates with the texts and formats of a language."""
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
        "share": partial(formats.format_share, language=language),
        "instant": lambda at: _kept_together(formats.format_instant(at, language)),
        "time_of_day": partial(formats.format_time_of_day, language=language),
        "clock": partial(formats.format_clock, language=language),
        "day": partial(formats.format_day, language=language),
        "day_of_week": partial(formats.format_day_of_week, language=language),
        "month": partial(formats.format_month, language=language),
        "offset": formats.format_offset,
        "browser": name_browser,
        "markdown": render_markdown,
    }
    made.globals |= {
        "asset": asset_url,
        "bar_chart": bar_chart,
        "language": language.value,
        "languages": {each.value: name for each, name in NAMES.items()},
    }
    return made


def _kept_together(instant: str) -> str:
    """An instant that breaks between its day and its time at most."""
    return instant.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ")
