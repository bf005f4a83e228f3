"""The rules, pure: nothing here does I/O, reads a clock, draws randomness or awaits.

State comes in and new state goes out; time, ids and random bytes are arguments; a refusal raises
before anything has changed. Each module is one subject with its own `__all__`, and is used by its
name, so that `holds.release` and `deliveries.release` stay two things::

    from meetcore.domain import holds, ledger, pricing

money        `ledger` (double entry), `transfers`, `hash_chain` and `chain_keys` (what it is made of), `holds`
             (reservations, the daily cap), `pricing` (tiers, the coercion of recording, quotes)
meetings     `meetings` (the life of one, the plan of a new one), `hosts` (best fit among the free),
             `schedule` (WIB in, UTC inside), `provider_events` (a provider's reports),
             `recordings` (the files of one, gathered and measured), `orphans` (unrecorded ones)
notes        `notes` (the life of one), `audio_chunks` (a recording in pieces), `transcripts`, `vtt` (a
             provider's), `citations` (verbatim quotes)
requests     `keys` (form, digest, scopes), `rate_window` (the wall-clock minute),
             `idempotency` (what a repeated request gets), `errors` (every refusal and its code)
webhooks     `endpoints` (disabled at twenty failures), `deliveries`, `retry_schedule`, `events`,
             `signature` (sign and verify), `webhook_urls`, `addresses` (which may be contacted)
form         `ids` (UUIDv7), `records` (what customers see)
"""

from importlib import import_module

TYPE_CHECKING = False  # what type checkers read as true; typing itself takes longer to import than all this

if TYPE_CHECKING:
    from meetcore.domain import (
        accounts,
        addresses,
        audio_chunks,
        chain_keys,
        citations,
        deliveries,
        download_limits,
        download_links,
        endpoints,
        errors,
        events,
        hash_chain,
        holds,
        hosts,
        idempotency,
        ids,
        keys,
        ledger,
        meetings,
        notes,
        orphans,
        pricing,
        provider_events,
        rate_window,
        recordings,
        records,
        retry_schedule,
        schedule,
        signature,
        transcripts,
        transfers,
        vtt,
        webhook_urls,
    )

__all__ = [
    "accounts",
    "addresses",
    "audio_chunks",
    "chain_keys",
    "citations",
    "deliveries",
    "download_limits",
    "download_links",
    "endpoints",
    "errors",
    "events",
    "hash_chain",
    "holds",
    "hosts",
    "idempotency",
    "ids",
    "keys",
    "ledger",
    "meetings",
    "note_markdown",
    "notes",
    "orphans",
    "pricing",
    "provider_events",
    "rate_window",
    "recordings",
    "records",
    "retry_schedule",
    "schedule",
    "signature",
    "transcripts",
    "transfers",
    "vtt",
    "webhook_hosts",
    "webhook_urls",
]


if not TYPE_CHECKING:  # pragma: no branch - a type checker would accept any name

    def __getattr__(name: str) -> object:
        """Load a module of the domain on first access, so that unused modules cost no import time.

        Raises:
            AttributeError: the domain has no such module.
        """
        if name in __all__:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The modules, loaded or not."""
    return sorted(__all__)
