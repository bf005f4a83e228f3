"""Browsers for tests of pages: each keeps its cookies and sends forms."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import httpx
from attrs import field, frozen

from tests.support.api_harness import BASE_URL

TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
FORM_KEY = re.compile(r'name="form_key" value="([^"]+)"')


class _FormReader(HTMLParser):
    """Collects the fields of the form that is sent to `action`."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self._action, self._inside, self._area = action, False, ""
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "form":
            self._inside = values.get("action") == self._action
        elif self._inside and tag in ("input", "textarea"):
            name = str(values["name"])
            self._area = name if tag == "textarea" else ""
            self.fields[name] = values.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "textarea" and self._area:
            self.fields[self._area] = self.fields[self._area].removeprefix("\n")
            self._area = ""

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data


def form_fields(page: str, action: str) -> dict[str, str]:
    """Return the fields of a page's form as a browser sends them when nothing was typed."""
    reader = _FormReader(action)
    reader.feed(page)
    return reader.fields


@frozen
class Browser:
    """A browser. `home` is a page with a form."""

    http: httpx.AsyncClient
    home: str = "/dashboard"
    _tokens: dict[frozenset[tuple[str, str | None]], str] = field(factory=dict, repr=False)
    """The token of the forms at `home`, by the cookies that it was given with."""

    async def get(self, path: str) -> httpx.Response:
        return await self.http.get(path)

    async def form_key(self, path: str) -> str:
        """Return the CSRF token of a page's form."""
        found = FORM_KEY.search((await self.get(path)).text)
        assert found is not None
        return found[1]

    async def post(self, path: str, page: str = "", **fields: str) -> httpx.Response:
        """Send a form from a page; from `home` with the token that this session was given there."""
        if page or (token := self._tokens.get(self._cookies())) is None:
            found = TOKEN.search((await self.http.get(page or self.home)).text)
            assert found is not None
            token = found[1]
            if not page:
                self._tokens[self._cookies()] = token
        return await self.http.post(path, data={"form_token": token} | fields, headers={"Origin": BASE_URL})

    def _cookies(self) -> frozenset[tuple[str, str | None]]:
        return frozenset((each.name, each.value) for each in self.http.cookies.jar)
