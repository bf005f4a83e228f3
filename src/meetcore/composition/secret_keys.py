"""The operator's keys and what follows from them, and what has to be kept of a key that is removed.

Values are sealed under `MEETCORE_SECRETS_KEY` alone. Keys for other uses are derived: what one is used
for needs it and not the key that it came from, so that it can be given by itself when the other is gone.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from typed_settings import SecretStr

from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.sealed_values import PostgresSealedValues
from meetcore.adapters.secrets import AesGcmCipher, derive, keys_from_text, text_from_keys
from meetcore.adapters.settings import Settings, SettingsRefused

CHAIN_PURPOSE: Final = "ledger chain"
LINK_PURPOSE: Final = "download links"
ROOM_PURPOSES: Final[Mapping[str, str]] = {"jitsi": "jitsi rooms", "sandbox": "sandbox join links"}
"""What a provider's addresses follow from, by its name."""


def check_secrets(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys that secrets are encrypted with; the first seals, all open.

    Raises:
        SettingsRefused: no key is set, or one is malformed.
    """
    return _read(settings.secrets_key, "MEETCORE_SECRETS_KEY")


def chain_secrets(settings: Settings, keys: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The secrets of the ledger's chain keys: of the present keys, then of those that were removed.

    Raises:
        SettingsRefused: a key is malformed.
    """
    present = tuple(derive(key, CHAIN_PURPOSE) for key in keys)
    return (*present, *(each for each in _ledger_keys(settings) if each not in present))


def room_secret(settings: Settings, keys: tuple[bytes, ...], purpose: str) -> bytes:
    """What the addresses of a provider's rooms follow from: it has to stay the same while they are in use.

    Raises:
        SettingsRefused: the key that is given is malformed, or there are several.
    """
    if not str(settings.room_key):
        return derive(keys[-1], purpose)
    given = _read(settings.room_key, "MEETCORE_ROOM_KEY")
    if len(given) > 1:
        raise SettingsRefused("MEETCORE_ROOM_KEY holds several keys: rooms follow from one")
    return given[0]


def kept_of_removed(settings: Settings) -> Mapping[str, str]:
    """The settings that have to be there before every key but the first is removed: secrets.

    Raises:
        SettingsRefused: a key is malformed.
    """
    keys = check_secrets(settings)
    kept = dict.fromkeys([*(derive(key, CHAIN_PURPOSE) for key in keys[1:]), *_ledger_keys(settings)])
    found = {"MEETCORE_LEDGER_KEYS": text_from_keys(kept)} if kept else {}
    purpose = ROOM_PURPOSES.get(settings.provider)
    if purpose is not None and (len(keys) > 1 or str(settings.room_key)):
        found["MEETCORE_ROOM_KEY"] = text_from_keys([room_secret(settings, keys, purpose)])
    return found


@asynccontextmanager
async def open_sealed_values(settings: Settings) -> AsyncIterator[PostgresSealedValues]:
    """Open the sealed values of the database, on connections of their own.

    Raises:
        SettingsRefused: the database or the keys are not set.
    """
    pool = make_pool(
        settings.require_database(),
        max_size=2,
        deadline_s=settings.database_timeout_s,
        is_pooled=settings.is_pooled,
        passes_fence=True,
    )
    await pool.open(wait=False)
    try:
        yield PostgresSealedValues(pool, AesGcmCipher(check_secrets(settings)))
    finally:
        await pool.close()


def _ledger_keys(settings: Settings) -> tuple[bytes, ...]:
    return _read(settings.ledger_keys, "MEETCORE_LEDGER_KEYS") if str(settings.ledger_keys) else ()


def _read(text: SecretStr, name: str) -> tuple[bytes, ...]:
    try:
        return keys_from_text(str(text), name)
    except ValueError as error:
        raise SettingsRefused(str(error)) from None
