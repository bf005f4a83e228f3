"""How the mail inbox looks: the plain text of each mail, its links clickable, and everything escaped."""

import re
from collections.abc import Sequence
from html import escape
from typing import Final

from meetcore.adapters.dev_inbox.inbox_page import INBOX_PATH, MAIL_PATH, page_of
from meetcore.adapters.dev_inbox.mail_inbox import MAILS_KEPT
from meetcore.domain.meetings.schedule import WIB
from meetcore.ports.mailer import OutgoingMail

_LINK: Final = re.compile(r"https?://[^\s<>\"']+")

_EMPTY: Final = """
<div class="empty"><h2>No mail yet</h2>
<p>Ask for a link to sign in, or let a webhook fail until it is disabled.</p>
</div>
"""

_MAIL: Final = """
<article>
<div class="top"><h2>{subject}</h2><time datetime="{iso}">{at}</time></div>
<p class="where">To {recipient} · <a href="{path}">as HTML</a></p>
<pre tabindex="0" aria-label="Text of {subject}">{text}</pre>
</article>
"""


def mail_page(mails: Sequence[OutgoingMail], *, is_paused: bool) -> str:
    """Build the page that lists mails in the order given.

    Args:
        mails: newest first.
        is_paused: whether the page holds still; else it loads itself again every 3 seconds.
    """
    kept = f"the last {MAILS_KEPT}" if len(mails) == MAILS_KEPT else f"{len(mails)} sent"
    summary = f"{kept}, newest first." if mails else "What members would get by e-mail."
    content = "".join(map(_mail, mails)) or _EMPTY
    return page_of("Mail inbox", len(mails), summary, content, INBOX_PATH, is_paused=is_paused)


def _mail(mail: OutgoingMail) -> str:
    at = mail.created_at.astimezone(WIB)
    return _MAIL.format(
        subject=escape(mail.subject),
        iso=at.isoformat(timespec="seconds"),
        at=f"{at:%H:%M:%S} WIB",
        recipient=escape(mail.recipient),
        path=f"{MAIL_PATH}/{mail.id}",
        text=_with_links(mail.text),
    )


def _with_links(text: str) -> str:
    parts, end = [], 0
    for link in _LINK.finditer(text):
        url = escape(link[0])
        parts += [escape(text[end : link.start()]), f'<a href="{url}">{url}</a>']
        end = link.end()
    return "".join([*parts, escape(text[end:])])
