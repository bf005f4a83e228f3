"""Passwords of meetings and the keys of hosts, drawn from random bytes (rule 4.1/password)."""

from typing import Final

from attrs import frozen

__all__ = [
    "MAX_PASSWORD_LENGTH",
    "MIN_PASSWORD_LENGTH",
    "PASSWORD_RANDOM_BYTES",
    "PasswordRule",
    "generate_host_key",
    "generate_password",
]

MIN_PASSWORD_LENGTH: Final = 4
MAX_PASSWORD_LENGTH: Final = 10
PASSWORD_RANDOM_BYTES: Final = 16


@frozen
class PasswordRule:
    """Which passwords a provider accepts."""

    alphabet: str
    min_length: int = MIN_PASSWORD_LENGTH
    max_length: int = MAX_PASSWORD_LENGTH


def generate_password(rule: PasswordRule, random: bytes) -> str:
    """Draw a password of the greatest length the provider takes.

    Args:
        random: at least 16 random bytes; the bias of the remainder is below 2^-60.

    Raises:
        ValueError: fewer random bytes: the password could be guessed.
    """
    if len(random) < PASSWORD_RANDOM_BYTES:
        raise ValueError(f"a password needs {PASSWORD_RANDOM_BYTES} random bytes, got {len(random)}")
    number = int.from_bytes(random)
    size = len(rule.alphabet)
    drawn = []
    for _ in range(rule.max_length):
        number, index = divmod(number, size)
        drawn.append(rule.alphabet[index])
    return "".join(drawn)


def generate_host_key(digits: int, random: bytes) -> str:
    """Draw a host's key.

    Args:
        digits: how many; the first may be a zero.
        random: at least 16 random bytes; the bias of the remainder is below 2^-60.

    Raises:
        ValueError: fewer random bytes: the key could be guessed.
    """
    return generate_password(PasswordRule("0123456789", max_length=digits), random)
