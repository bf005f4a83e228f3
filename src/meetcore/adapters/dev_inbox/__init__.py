"""A webhook receiver and a mailbox on this machine, for `meetcore dev` only.

Webhooks go to public HTTPS addresses. A developer who has none registers
`https://inbox.meetcore.test/anything` and sees on a page what a real receiver would get, and whether
its signature holds. `certificates` makes the TLS side possible, `receiver` takes deliveries in,
`inbox_page` and `pages` show them. Mails are not sent at all: `mail_inbox` keeps them,
`mail_page` shows them.

It must not be exposed: it listens where `meetcore dev` puts it, on loopback, and shows everything it received
to any client.
"""

from meetcore.adapters.dev_inbox.certificates import INBOX_HOST, make_dev_ca
from meetcore.adapters.dev_inbox.mail_inbox import MailInbox
from meetcore.adapters.dev_inbox.pages import inbox_routes
from meetcore.adapters.dev_inbox.receiver import Delivery, InboxApp

__all__ = ["INBOX_HOST", "Delivery", "InboxApp", "MailInbox", "inbox_routes", "make_dev_ca"]
