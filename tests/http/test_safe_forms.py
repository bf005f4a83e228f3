"""Forms that charge or destroy: what presses them, what asks first, and what was typed."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.support.api_harness import Customer
from tests.support.dashboard_fixtures import SignIn, browsers, sign_in

__all__ = ["SignIn", "browsers", "sign_in"]


class _FirstButtons(HTMLParser):
    """Collects the first submit button of each form, the one that Enter in a field presses."""

    def __init__(self) -> None:
        super().__init__()
        self._action = ""
        self.found: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "form":
            self._action = values.get("action") or ""
        elif tag == "button" and values.get("type", "submit") == "submit":
            self.found.setdefault(self._action, values)


def first_button(page: str, action: str) -> dict[str, str | None]:
    reader = _FirstButtons()
    reader.feed(page)
    return reader.found[action]


async def test_enter_in_a_field_of_a_new_meeting_shows_the_price(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id)
    empty = (await browser.get("/dashboard/meetings/new")).text
    body = customer.body(title="By hand")
    fields = {name: str(body[name]) for name in ("title", "date", "start_time", "pricing_tier_id")}
    priced = (await browser.post("/dashboard/meetings", **fields)).text
    assert 'name="seen_credits"' in priced
    for page in (empty, priced):
        assert "name" not in first_button(page, "/dashboard/meetings")
    again = await browser.post("/dashboard/meetings", **fields | {"title": "Changed after the price"})
    assert 'name="seen_credits"' in again.text
    assert await customer.balance() == 1000
