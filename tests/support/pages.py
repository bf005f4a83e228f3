"""Browsers for tests of pages: each keeps its cookies and sends forms."""

from __future__ import annotations

import re

import httpx
from attrs import frozen

from tests.support.api_harness import BASE_URL

TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
FORM_KEY = re.compile(r'name="form_key" value="([^"]+)"')


@frozen
class Browser:
    """A browser. `home` is a page with a form."""

    http: httpx.AsyncClient
    home: str = "/dashboard"

    async def get(self, path: str) -> httpx.Response:
        return await self.http.get(path)

    async def form_key(self, path: str) -> str:
        """Return the CSRF token of a page's form."""
        found = FORM_KEY.search((await self.get(path)).text)
        assert found is not None
        return found[1]

    async def post(self, path: str, page: str = "", **fields: str) -> httpx.Response:
        """Send a form from a page."""
        token = TOKEN.search((await self.http.get(page or self.home)).text)
        assert token is not None
        return await self.http.post(
            path, data={"form_token": token[1]} | fields, headers={"Origin": BASE_URL}
        )
