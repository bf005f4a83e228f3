"""Write mails as plain text and as HTML, with everything escaped.

Names and URLs from outside are cut to one line of printable characters.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from attrs import frozen
from babel.dates import format_date, format_datetime
from babel.numbers import format_decimal
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from meetcore.adapters.catalogues import CLOCKS, format_money, translations
from meetcore.domain.mails import contents, views
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language
from meetcore.domain.webhooks.deliveries import HELD_FOR

CATALOGUES: Final = Path(__file__).parent / "catalogues"
MAX_NAME: Final = 200
_ELLIPSIS: Final = "…"


@frozen
class Letter:
    """A mail before layout: sentences, listed items, and one link with its label."""

    subject: str
    sentences: tuple[str, ...]
    label: str
    url: str
    items: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@frozen
class LetterWriter:
    """Writes the letters of a site in one language."""

    site: str
    language: Language

    def write(self, content: contents.MailContent) -> Letter:
        match content:
            case contents.SignInLink():
                return self._sign_in(content)
            case contents.Invitation():
                return self._invitation(content)
            case contents.EndpointDisabled():
                return self._disabled(content)
            case contents.LowCredits():
                return self._low_credits(content)
            case contents.PasskeyChanged():
                return self._passkey(content)
            case contents.StatementReady():
                return self._statement(content)
            case contents.PaymentReceived():
                return self._received(content)
            case contents.PaymentEnded():
                return self._ended(content)
            case contents.PaymentRefunded():
                return self._refunded(content)
            case contents.SuspensionChanged():
                return self._suspension(content)

    def _sign_in(self, link: contents.SignInLink) -> Letter:
        _ = self._text
        return Letter(
            _("Your link to sign in to %(site)s", site=self.site),
            (
                _("With this link you sign in to %(site)s.", site=self.site),
                _(
                    "It works once, in the browser that asked for it, until %(time)s.",
                    time=self._time(link.expires_at),
                ),
            ),
            _("Sign in"),
            link.url,
            after=(
                _("If you did not ask for it, ignore this e-mail: without the link nobody gets in."),
                _(
                    "If such e-mails keep coming, somebody else types your address: delete them, and tell "
                    "who runs %(site)s.",
                    site=self.site,
                ),
            ),
        )

    def _invitation(self, invitation: contents.Invitation) -> Letter:
        _ = self._text
        roles = {
            Role.OWNER: _("Owner"), Role.DEVELOPER: _("Developer"), Role.FINANCE: _("Finance"),
            Role.VIEWER: _("Viewer"),
        }  # fmt: skip
        names = {"member": one_line(invitation.invited_by), "account": one_line(invitation.account_name)}
        return Letter(
            _("An invitation to %(site)s", site=self.site),
            (
                _("“%(member)s” invites you to work on “%(account)s” at %(site)s.", site=self.site, **names),
                _("Your role there is %(role)s.", role=roles[invitation.role]),
                _("The invitation is valid until %(time)s.", time=self._time(invitation.expires_at)),
            ),
            _("Accept the invitation"),
            invitation.url,
            after=(_("If you do not expect this, ignore this e-mail."),),
        )

    def _disabled(self, disabled: contents.EndpointDisabled) -> Letter:
        _ = self._text
        count = len(disabled.urls)
        return Letter(
            self._plural("A webhook was disabled", "%(count)s webhooks were disabled", count),
            (
                _(
                    "The last %(failures)s attempts failed. Nothing has been sent here since %(time)s:",
                    failures=self._number(disabled.failures),
                    time=self._time(disabled.disabled_at),
                ),
            ),
            _("See why, and make it active again"),
            disabled.page_url,
            tuple(one_line(url) for url in disabled.urls),
            (
                _(
                    "Events are kept for %(hours)s hours, and sent when the webhook is active again.",
                    hours=self._number(HELD_FOR // timedelta(hours=1)),
                ),
                self._account(disabled.account_name),
            ),
        )

    def _low_credits(self, low: contents.LowCredits) -> Letter:
        _ = self._text
        return Letter(
            _("Your credits at %(site)s are running low", site=self.site),
            (
                self._plural(
                    "There is %(balance)s credit left. The threshold of this account is %(threshold)s.",
                    "There are %(balance)s credits left. The threshold of this account is %(threshold)s.",
                    low.balance,
                    balance=self._number(low.balance),
                    threshold=self._number(low.threshold),
                ),
                self._account(low.account_name),
            ),
            _("See the balance"),
            low.page_url,
        )

    def _passkey(self, changed: contents.PasskeyChanged) -> Letter:
        _ = self._text
        values = {"name": one_line(changed.name), "time": self._time(changed.changed_at), "site": self.site}
        if changed.was_added:
            subject = _("A passkey was added at %(site)s", site=self.site)
            sentence = _("The passkey “%(name)s” signs you in to %(site)s since %(time)s.", **values)
        else:
            subject = _("A passkey was removed at %(site)s", site=self.site)
            sentence = _("The passkey “%(name)s” does not sign you in to %(site)s since %(time)s.", **values)
        address = one_line(changed.client_address or "")
        origin = (_("The change came from the address %(address)s.", address=address),) if address else ()
        return Letter(
            subject,
            (sentence, *origin),
            _("See your passkeys"),
            changed.page_url,
            after=(
                _("If you did not do this, sign in, remove what is not yours and sign out everywhere else."),
            ),
        )

    def _statement(self, ready: contents.StatementReady) -> Letter:
        _ = self._text
        names = {
            "month": format_date(ready.month, "LLLL y", locale=self.language.value),
            "account": one_line(ready.account_name),
        }
        return Letter(
            _("The statement of %(month)s", month=names["month"]),
            (_("The statement of %(month)s for “%(account)s” can be downloaded as PDF.", **names),),
            _("See the statements"),
            ready.page_url,
            after=(_("An owner can switch these e-mails off under Settings."),),
        )

    def _received(self, paid: contents.PaymentReceived) -> Letter:
        _ = self._text
        return Letter(
            _("Payment received: receipt %(receipt)s", receipt=paid.receipt),
            (
                self._plural(
                    "%(amount)s has arrived, and %(credits)s credit is in the account.",
                    "%(amount)s has arrived, and %(credits)s credits are in the account.",
                    paid.credits,
                    amount=format_money(paid.amount, paid.currency, self.language),
                    credits=self._number(paid.credits),
                ),
                _("The receipt has the number %(receipt)s.", receipt=paid.receipt),
                self._account(paid.account_name),
            ),
            _("See the receipt"),
            paid.page_url,
        )

    def _ended(self, ended: contents.PaymentEnded) -> Letter:
        _ = self._text
        values = {
            "amount": format_money(ended.amount, ended.currency, self.language),
            "credits": self._number(ended.credits),
        }
        if ended.is_expired:
            subject = _("A payment has expired")
            sentence = self._plural(
                "The payment of %(amount)s for %(credits)s credit was not paid in time and has expired.",
                "The payment of %(amount)s for %(credits)s credits was not paid in time and has expired.",
                ended.credits,
                **values,
            )
        else:
            subject = _("A payment has failed")
            sentence = self._plural(
                "The payment of %(amount)s for %(credits)s credit has failed.",
                "The payment of %(amount)s for %(credits)s credits has failed.",
                ended.credits,
                **values,
            )
        return Letter(
            subject,
            (
                sentence,
                _("No credits were added. To buy them, start a new payment."),
                self._account(ended.account_name),
            ),
            _("See the payment"),
            ended.page_url,
        )

    def _refunded(self, refund: contents.PaymentRefunded) -> Letter:
        _ = self._text
        values = {
            "amount": format_money(refund.amount, refund.currency, self.language),
            "credits": self._number(refund.credits),
        }
        if refund.has_failed:
            subject = _("A refund of %(amount)s has failed", **values)
            sentence = self._plural(
                "%(amount)s could not be sent back. The %(credits)s credit is in the account again.",
                "%(amount)s could not be sent back. The %(credits)s credits are in the account again.",
                refund.credits,
                **values,
            )
            then = _("The operator of %(site)s looks into it.", site=self.site)
        else:
            subject = _("A refund of %(amount)s was sent", **values)
            sentence = self._plural(
                "%(credits)s credit was taken back, and %(amount)s was sent the way it came.",
                "%(credits)s credits were taken back, and %(amount)s was sent the way it came.",
                refund.credits,
                **values,
            )
            then = _("It can take some days to arrive. The receipt shows the refund.")
        account = self._account(refund.account_name)
        return Letter(subject, (sentence, then, account), _("See the payment"), refund.page_url)

    def _suspension(self, changed: contents.SuspensionChanged) -> Letter:
        _ = self._text
        values = {"account": one_line(changed.account_name), "time": self._time(changed.changed_at)}
        if not changed.is_suspended:
            subject = _("Your account at %(site)s is active again", site=self.site)
            sentences = (
                _("“%(account)s” is active again since %(time)s. Its API keys work again.", **values),
            )
        else:
            subject = _("Your account at %(site)s was suspended", site=self.site)
            reason = one_line(changed.reason or "")
            sentences = (
                _("“%(account)s” was suspended at %(time)s.", **values),
                *((_("Reason: %(reason)s", reason=reason),) if reason else ()),
                _("Its API keys are refused. What was begun goes on, and credits and records stay."),
            )
        return Letter(subject, sentences, _("See the account"), changed.page_url)

    def _account(self, name: str) -> str:
        _ = self._text
        return _("Account: “%(account)s”.", account=one_line(name))

    def _text(self, message: str, **values: str) -> str:
        return translations(CATALOGUES, self.language).gettext(message) % values

    def _plural(self, one: str, many: str, count: int, **values: str) -> str:
        message = translations(CATALOGUES, self.language).ngettext(one, many, count)
        return message % {"count": self._number(count), **values}

    def _time(self, at: datetime) -> str:
        pattern = f"d MMMM y, {CLOCKS[self.language]}"
        shown = format_datetime(at.astimezone(WIB), pattern, tzinfo=WIB, locale=self.language.value)
        return f"{shown} WIB"

    def _number(self, number: int) -> str:
        return format_decimal(number, locale=self.language.value)


def one_line(text: str) -> str:
    """Return the text on one line, without unprintable characters, cut to `MAX_NAME`."""
    printed = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printed.split())
    return line if len(line) <= MAX_NAME else line[: MAX_NAME - 1] + _ELLIPSIS


TEMPLATES: Final = Path(__file__).parent / "templates"


class TemplateMailTexts:
    """Renders the mails of a site, such as `meet.example`; each ends with its name and address."""

    def __init__(self, site: str, address: str = "") -> None:
        self._site = site
        self._address = address
        environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=select_autoescape(["html"]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._text = environment.get_template("letter.txt")
        self._html = environment.get_template("letter.html")

    def write(self, content: contents.MailContent, language: Language) -> views.MailText:
        letter = LetterWriter(self._site, language).write(content)
        values = {"letter": letter, "site": self._site, "address": self._address, "language": language.value}
        return views.MailText(one_line(letter.subject), self._text.render(values), self._html.render(values))
