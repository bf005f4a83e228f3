"""Tokens of sessions and links: 32 random bytes, shown once and stored as their SHA-256."""

import base64
import hashlib
import re
from typing import Final

__all__ = ["TOKEN_BYTES", "is_token", "mint_token", "token_digest"]

TOKEN_BYTES: Final = 32

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def mint_token(random: bytes) -> str:
    """Compose a token of 43 characters of base64url.

    Raises:
        ValueError: not 32 random bytes.
    """
    if len(random) != TOKEN_BYTES:
        raise ValueError(f"a token needs {TOKEN_BYTES} random bytes")
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def is_token(text: str) -> bool:
    """Whether a text has the form of a token: nothing else need be looked up."""
    return _TOKEN.fullmatch(text) is not None


def token_digest(token: str) -> bytes:
    """The SHA-256 under which a token is stored and looked up. 256 random bits need no slow hash."""
    return hashlib.sha256(token.encode()).digest()
