"""How the inbox looks. Everything that came over the wire is escaped here; no script, no other file."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from meetcore.adapters.dev_inbox.certificates import INBOX_HOST
from meetcore.adapters.dev_inbox.receiver import KEPT, Delivery
from meetcore.domain.meetings.schedule import WIB

INBOX_PATH: Final = "/inbox"
MAIL_PATH: Final = "/inbox/mails"

_NAMES: Final = {INBOX_PATH: "Webhooks", MAIL_PATH: "Mails"}
_MAX_DEPTH: Final = 64
_SCALARS: Final = (str, int, float, bool, type(None))
_REFRESH: Final = '<meta http-equiv="refresh" content="3">'

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #17212b; --soft: #566573; --line: #dfe5ea; --card: #fff;
  --ground: #f2f5f7; --good: #0b6e5f; --on-good: #fff; --bad: #b3261e; --on-bad: #fff; --code: #f6f8f9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf1; --soft: #9fb0be; --line: #2c3843;
  --card: #18212a; --ground: #0f161d; --good: #4fd1b8; --on-good: #06231e; --bad: #ffb4ab;
  --on-bad: #4a0f0b; --code: #111a22; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 56rem; margin: 0 auto; padding: clamp(1rem, 4vw, 2.5rem); }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 1rem; margin-bottom: 1.5rem; }
h1 { margin: 0; font-size: 1.6rem; } header p { margin: 0; color: var(--soft); flex: 1; min-width: 12rem; }
a { color: var(--good); }
a:focus-visible, summary:focus-visible, pre:focus-visible { outline: 3px solid var(--good);
  outline-offset: 3px; }
article { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--good);
  border-radius: .75rem; padding: 1rem 1.25rem; margin-bottom: 1rem; }
article.bad { border-left-color: var(--bad); }
.top { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem .75rem; }
h2 { margin: 0; font-size: 1.1rem; overflow-wrap: anywhere; } time { color: var(--soft); margin-left: auto; }
.mark { padding: .1rem .65rem; border-radius: 1rem; font-size: .8125rem; font-weight: 600;
  background: var(--good); color: var(--on-good); }
.bad .mark { background: var(--bad); color: var(--on-bad); }
.where { margin: .15rem 0 0; color: var(--soft); font-size: .875rem; overflow-wrap: anywhere; }
.problem { margin: .5rem 0 0; color: var(--bad); font-weight: 600; }
pre { margin: .75rem 0; padding: .85rem 1rem; background: var(--code); border-radius: .5rem; overflow: auto;
  max-height: 26rem; white-space: pre-wrap; overflow-wrap: anywhere;
  font: .8125rem/1.5 ui-monospace, monospace; }
summary { cursor: pointer; color: var(--soft); font-size: .875rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0 0;
  font: .8125rem/1.5 ui-monospace, monospace; } dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.empty { text-align: center; padding: 3rem 1.25rem; border: 1px dashed var(--line); border-radius: .75rem; }
.empty code { overflow-wrap: anywhere; }
@media (max-width: 32rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; }
  time { margin-left: 0; width: 100%; } }
"""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{refresh}
<title>{title} ({count})</title>
<style>{style}</style>
</head>
<body><main>
<header><h1>{title}</h1><p>{summary}</p>{other}{switch}</header>
{content}
</main></body>
</html>
"""

_EMPTY: Final = f"""
<div class="empty"><h2>Nothing has arrived yet</h2>
<p>Register <code>https://{INBOX_HOST}/any-path</code> as a webhook, then make a meeting or send a test.</p>
</div>
"""

_DELIVERY: Final = """
<article class="{kind}">
<div class="top"><h2>{event}</h2><span class="mark">{mark}</span><time datetime="{iso}">{at}</time></div>
<p class="where">POST {path}</p>{problem}
<pre tabindex="0" aria-label="Body of {event}">{body}</pre>
<details><summary>Headers</summary><dl>{headers}</dl></details>
</article>
"""


def inbox_page(deliveries: Sequence[Delivery], *, is_paused: bool) -> str:
    """Build the page that lists deliveries in the order given.

    Args:
        deliveries: newest first.
        is_paused: whether the page holds still; else it loads itself again every 3 seconds.
    """
    content = "".join(map(_delivery, deliveries)) or _EMPTY
    return page_of(
        "Webhook inbox", len(deliveries), _summary(deliveries), content, MAIL_PATH, is_paused=is_paused
    )


def page_of(title: str, count: int, summary: str, content: str, other: str, *, is_paused: bool) -> str:
    """Build the page of an inbox with a link to the other one. Only `content` is HTML."""
    return _PAGE.format(
        refresh="" if is_paused else _REFRESH,
        style=_STYLE,
        title=title,
        count=count,
        summary=summary,
        other=f'<a href="{other}">{_NAMES[other]}</a>',
        switch='<a href="?">Resume</a>' if is_paused else '<a href="?pause">Pause</a>',
        content=content,
    )


def payload_of(body: bytes) -> Any:
    """Return the body as JSON, or `None` when it is not, or is nested deeper than 64 levels."""
    try:
        payload = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return None if _is_too_deep(payload) else payload


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _is_too_deep(value: Any) -> bool:
    # Reading takes less of the stack than writing: without this a page could fail on what it read.
    level = [value]
    for _ in range(_MAX_DEPTH):
        parts = [part.values() if isinstance(part, dict) else part for part in level]
        level = [inner for part in parts if not isinstance(part, _SCALARS) for inner in part]
    return bool(level)


def _summary(deliveries: Sequence[Delivery]) -> str:
    doubtful = sum(not delivery.is_verified for delivery in deliveries)
    if not deliveries:
        return "What your receiver would get."
    count = f"the last {KEPT}" if len(deliveries) == KEPT else f"{len(deliveries)} received"
    return f"{count}, {f'{doubtful} not verified' if doubtful else 'all verified'}, newest first."


def _delivery(delivery: Delivery) -> str:
    at = delivery.received_at.astimezone(WIB)
    headers = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in delivery.headers.items()
    )
    return _DELIVERY.format(
        kind="good" if delivery.is_verified else "bad",
        event=escape(delivery.headers.get("X-Service-Event", "no event named")),
        mark="✓ verified" if delivery.is_verified else "✗ not verified",
        iso=at.isoformat(timespec="seconds"),
        at=f"{at:%H:%M:%S} WIB",
        path=escape(delivery.path),
        problem="" if delivery.problem is None else f'<p class="problem">{escape(delivery.problem)}</p>',
        body=escape(_pretty(delivery.body)),
        headers=headers or "<dt>none</dt><dd></dd>",
    )


def _pretty(body: bytes) -> str:
    payload = payload_of(body)
    if payload is None:
        return body.decode("utf-8", "replace") or "(empty)"
    return json.dumps(payload, indent=2, ensure_ascii=False)
