"""A webhook receiver and a mailbox for `meetcore dev`.

Webhooks go to public HTTPS addresses only. A developer without one registers
`https://inbox.meetcore.test/anything` and sees on a page the delivery as a receiver would get it, and whether
its signature is valid. `certificates` provides TLS, `receiver` takes deliveries and mails, `pages` shows
them.

It must not be exposed: it shows every delivery that it received to any client on loopback, and the mails to
the holder of a token.
"""

from meetcore.adapters.dev_inbox.certificates import INBOX_HOST, make_dev_certificate
from meetcore.adapters.dev_inbox.pages import MAIL_PATH, inbox_routes
from meetcore.adapters.dev_inbox.receiver import Delivery, InboxApp, MailInbox

__all__ = [
    "INBOX_HOST",
    "MAIL_PATH",
    "Delivery",
    "InboxApp",
    "MailInbox",
    "inbox_routes",
    "make_dev_certificate",
]
