"""The cookies of the pages: the session, the browser that asked for a link, and the language.

A name with the prefix `__Host-` is bound to this host, to TLS and to the whole path (RFC 6265bis, 4.1.3.2).
On plain http, which is for a loopback address, browsers refuse the prefix.
"""

from datetime import timedelta
from typing import Final

from attrs import frozen
from starlette.requests import Request
from starlette.responses import Response

DASHBOARD: Final = "meetcore"
"""What the names of the dashboard's cookies begin with."""
LANGUAGE_KEPT: Final = timedelta(days=365)
_MAX_COOKIE: Final = 1000


@frozen
class Cookies:
    """The names and attributes of the cookies of one part of the site."""

    site: str
    is_secure: bool

    @property
    def session(self) -> str:
        """The name of the session's cookie."""
        return self._named(self.site)

    @property
    def browser(self) -> str:
        """The name of the cookie that a sign-in link is bound to."""
        return self._named(f"{self.site}-browser")

    @property
    def after(self) -> str:
        """The name of the cookie with the page to go on to after signing in."""
        return self._named(f"{self.site}-after")

    @property
    def provider(self) -> str:
        """The name of the cookie that a sign-in at an OpenID provider is bound to."""
        return self._named(f"{self.site}-provider")

    @property
    def language(self) -> str:
        """The name of the cookie with the language chosen."""
        return self._named("meetcore-language")

    def read(self, request: Request, name: str) -> str | None:
        """The value of a cookie; `None` where it is missing or longer than any of ours."""
        value = request.cookies.get(name)
        return value if value and len(value) <= _MAX_COOKIE else None

    def set(self, response: Response, name: str, value: str, kept: timedelta) -> None:
        """Set a cookie that no script reads, for so long."""
        response.set_cookie(
            name, value, max_age=int(kept.total_seconds()), path="/", secure=self.is_secure, httponly=True,
            samesite="lax",
        )  # fmt: skip

    def clear(self, response: Response, name: str) -> None:
        """Delete a cookie."""
        response.delete_cookie(name, path="/", secure=self.is_secure, httponly=True, samesite="lax")

    def _named(self, name: str) -> str:
        return f"__Host-{name}" if self.is_secure else name
