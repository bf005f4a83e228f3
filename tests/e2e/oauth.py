"""A member in a browser who answers the consent page of an agent, over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
from attrs import frozen

HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
CHECKED = re.compile(r'name="(scope:[a-z:]+)" checked')


@frozen
class Member:
    """A signed-in browser of the dashboard."""

    browser: httpx.Client
    url: str

    def post(self, path: str, page: str, **fields: str) -> httpx.Response:
        hidden = dict(HIDDEN.findall(self.browser.get(page).text))
        return self.browser.post(path, data=hidden | fields, headers={"Origin": self.url})

    def answer(self, authorize: str, *, allow: bool = True) -> str:
        """Follow a program's link, answer as the page proposes, and return where the browser is sent."""
        asked = self.browser.get(authorize)
        assert asked.status_code == 302, asked.text
        path = urlsplit(asked.headers["Location"]).path
        scopes = dict.fromkeys(CHECKED.findall(self.browser.get(path).text), "on")
        answer = self.post(path, path, answer="allow" if allow else "refuse", expires_in_days="90", **scopes)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["Location"])

    def revoke_all(self) -> None:
        """Revoke every key that works, as the page of keys offers it."""
        page = self.browser.get("/dashboard/keys").text
        for path in re.findall(r'action="(/dashboard/keys/[0-9a-f-]+/revoke)"', page):
            assert self.post(path, "/dashboard/keys", confirmed="").status_code == 303


@contextmanager
def member(link: str, url: str) -> Iterator[Member]:
    """A browser that was signed in by a link, at a service of this URL."""
    with httpx.Client(base_url=url, trust_env=False, timeout=20) as browser:
        found = Member(browser, url)
        path = urlsplit(link).path
        assert found.post(path, path).status_code == 303
        yield found
