"""Keep work on meetings that no request waits for: keys of hosts, checks for orphans, events of providers.

The inbox of provider events is claimed by pushing a due time past a lease. The first opening of an orphan check and its end with
an abandoned meeting are in `create`.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres import columns, repository
from meetcore.adapters.postgres.meetings.rows import MEETING, host_key_context, meeting
from meetcore.domain.meetings import provider_events, views
from meetcore.ports.runtime import CipherRefused, Lease

log = structlog.get_logger("meetcore.postgres")

SQL = repository.load_statements(__file__, MEETING=MEETING)


class PostgresHostKeyRepository(repository.Repository):
    """The keys of hosts, and their replacement."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[views.DueHostKey]:
        found = await self._all(SQL["claim_due_keys"], limit=limit, token=lease.token, lease_s=lease.seconds)
        return [views.DueHostKey(row["host_id"], row["provider_user_id"], lease.token) for row in found]

    async def save(self, host_id: UUID, token: UUID, host_key: str) -> bool:
        sealed = columns.seal_text(self._cipher, host_key, host_key_context(host_id))
        return await self._changed(SQL["save_host_key"], host_id=host_id, token=token, host_key=sealed)

    async def postpone(self, host_id: UUID, token: UUID, seconds: float) -> None:
        await self._changed(SQL["postpone_host_key"], host_id=host_id, token=token, seconds=seconds)


class PostgresOrphanCheckRepository(repository.Repository):
    """Checks that are open."""

    async def open(self, account_id: UUID, meeting_id: UUID) -> None:
        await self._run(SQL["open_orphan_check"], account_id=account_id, meeting_id=meeting_id)

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[views.OrphanCheck]:
        found = await self._all(
            SQL["claim_due_orphan_checks"], {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        )
        return [self._check(row, lease) for row in found]

    def _check(self, row: columns.Row, lease: Lease) -> views.OrphanCheck:
        user, age_s, failures = row["provider_user_id"], row["age_s"], row["failures"]
        return views.OrphanCheck(meeting(row, self._cipher), user, age_s, failures, lease.token)

    async def postpone(
        self, check: views.OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        values = {"after_s": after_s, "failures": failures, "is_sighting": is_sighting}
        await self._run(SQL["postpone_orphan_check"], _named(check) | values)

    async def close(self, check: views.OrphanCheck) -> None:
        await self._run(SQL["close_orphan_check"], _named(check))


def _named(check: views.OrphanCheck) -> dict[str, Any]:
    return {"account_id": check.meeting.account_id, "meeting_id": check.meeting.id, "token": check.token}


_UNREADABLE_FOR_S = 3600.0

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(provider_events.ProviderEvent)


def provider_event_context(event_id: UUID) -> str:
    """Return the context that a provider's event is sealed for; it belongs to no account."""
    return f"provider-events/{event_id}/payload"


class PostgresProviderEventInbox(repository.Repository):
    """Events of providers that are not applied yet."""

    async def add(self, id: UUID, event: provider_events.ProviderEvent, digest: bytes) -> bool:
        parameters = {
            "id": id,
            "provider": event.provider,
            "digest": digest,
            "kind": event.kind.value,
            "payload": self._cipher.seal(_encoder.encode(event), provider_event_context(id)),
        }
        return await self._changed(SQL["add_provider_event"], parameters)

    async def claim(self, limit: int, lease: Lease) -> Sequence[views.ClaimedEvent]:
        """Take events that are due, each under the lease.

        One that does not open is logged and postponed for an hour, or dropped at its last try.
        """
        parameters = {"limit": limit, "token": lease.token, "lease_s": lease.seconds}
        claimed = []
        for row in await self._all(SQL["claim_provider_events"], parameters):
            try:
                event = _decoder.decode(self._cipher.open(row["payload"], provider_event_context(row["id"])))
            except (CipherRefused, msgspec.DecodeError):
                is_last = row["tries"] >= provider_events.MAX_TRIES
                log.exception("provider event does not open", event_id=str(row["id"]), is_dropped=is_last)
                await (
                    self.done(row["id"], lease.token) if is_last
                    else self.postpone(row["id"], lease.token, _UNREADABLE_FOR_S)
                )  # fmt: skip
            else:
                claimed.append(
                    views.ClaimedEvent(row["id"], event, row["tries"], lease.token, row["had_lease"])
                )
        return claimed

    async def postpone(self, id: UUID, token: UUID, seconds: float) -> None:
        await self._run(SQL["postpone_provider_event"], id=id, token=token, seconds=seconds)

    async def done(self, id: UUID, token: UUID) -> None:
        await self._run(SQL["finish_provider_event"], id=id, token=token)
