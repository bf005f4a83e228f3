"""The frame of the sandbox's pages: headers, style, and the document around their content."""

from typing import Final

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

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #17212b; --soft: #566573; --line: #dfe5ea; --card: #fff;
  --ground: #f2f5f7; --brand: #0b6e5f; --on-brand: #fff; --off: #e9edf0;
  --chip: #e5eef7; --chip-ink: #1d4d7a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf1; --soft: #9fb0be; --line: #2c3843;
  --card: #18212a; --ground: #0f161d; --brand: #4fd1b8; --on-brand: #06231e; --off: #232e38;
  --chip: #1d3348; --chip-ink: #a9d1f5; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem;
  background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 34rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 1rem; padding: clamp(1.25rem, 5vw, 2.25rem); box-shadow: 0 8px 30px rgb(0 0 0 / 7%); }
.kind { margin: 0 0 .5rem; color: var(--soft); font-size: .875rem; }
h1 { margin: 0 0 .75rem; font-size: clamp(1.35rem, 5vw, 1.75rem); line-height: 1.25;
  overflow-wrap: anywhere; }
.chip { display: inline-block; padding: .15rem .7rem; border-radius: 1rem; background: var(--chip);
  color: var(--chip-ink); font-weight: 600; font-size: .875rem; }
.started { background: var(--brand); color: var(--on-brand); }
.ended, .cancelled { background: var(--off); color: var(--soft); }
.about { margin: 1rem 0 0; white-space: pre-line; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .5rem 1.25rem; margin: 1.5rem 0;
  padding: 1.25rem 0; border-block: 1px solid var(--line); }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
small { color: var(--soft); }
.hint { font-family: ui-monospace, monospace; letter-spacing: .08em; }
.buttons { display: grid; grid-template-columns: 1fr 1fr 1fr; gap: .75rem; } form { margin: 0; }
button { width: 100%; min-height: 3rem; padding: .5rem; border: 1px solid var(--brand); cursor: pointer;
  border-radius: .65rem; background: transparent; color: var(--brand); font: inherit; font-weight: 600; }
.first { background: var(--brand); color: var(--on-brand); }
button:disabled { background: var(--off); border-color: var(--off); color: var(--soft); cursor: not-allowed; }
summary { padding: .25rem 0; }
button:focus-visible { outline: 3px solid var(--brand); outline-offset: 3px; }
.note { margin: 1.25rem 0 0; color: var(--soft); font-size: .875rem; overflow-wrap: anywhere; }
@media (max-width: 26rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .75rem; }
  dd:last-child { margin-bottom: 0; } .buttons { grid-template-columns: 1fr; } }
"""

_PAGE: Final = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main>{content}</main></body>
</html>
"""


def render_page(title: str, content: str, language: str = "en") -> str:
    """Return the document of a page; title and content are HTML, escaped by the caller."""
    return _PAGE.format(title=title, style=_STYLE, content=content, language=language)
