"""Take a meeting over again that a restore lost and its provider still has: one transaction.

It is the making of a meeting without the provider: the hold is taken and settled at once, so that the ledger
has one charge under the name that the lost one had, the host is reserved, and a retry with the idempotency
key gets the first result. Balance and cap are not asked: the meeting was admitted when it was sold. The entry
and the event are of now; the charge counts for the cap day of the request.
"""

from datetime import datetime, timedelta
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, ProviderAbilities
from meetcore.domain.meetings.memos import MeetingMemo
from meetcore.domain.money import holds
from meetcore.domain.money.ledger import Reference, TransferKind
from meetcore.ports.idempotency import Claim
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import Provisioning
from meetcore.ports.store import Transaction
from meetcore.ports.video_provider import FoundMeeting
from meetcore.usecases.provision import settle
from meetcore.usecases.reserve_meeting import creation_query
from meetcore.usecases.runtime import Runtime

_LEASE_S = 60.0


@frozen
class Adoption:
    """A meeting at the provider, what was sold as it, and its host there."""

    found: FoundMeeting
    meeting_id: UUID
    memo: MeetingMemo
    host: Host


class NotAdopted(Exception):
    """The meeting cannot be taken over; the message says why. Nothing was written."""


async def adopt(
    tx: Transaction, runtime: Runtime, abilities: ProviderAbilities, adoption: Adoption, now: datetime
) -> Meeting:
    """Make the lost meeting again, as it was sold.

    Raises:
        NotAdopted: its account is lost or erased, its key has another result, or its host cannot take it.
    """
    memo, draft = adoption.memo, _draft(adoption, abilities)
    query = creation_query(draft, 0, abilities, memo.idempotency_key, can_wait=False)
    try:
        view = await tx.meetings.load_creation(evolve(query, needs_host=False))
    except NotFound:
        raise NotAdopted("its account is lost, too") from None
    if view.is_erased:
        raise NotAdopted("its account was erased")
    record = view.idempotency.record
    if view.charged is not None or (record is not None and record.is_done):
        raise NotAdopted("its idempotency key has another result")
    hold = holds.Hold(
        runtime.new_id(now), query.operation, TransferKind.MEETING_CHARGE, draft.credits,
        Reference("meeting", str(draft.id)), draft.api_key_id, view.usage.day,
    )  # fmt: skip
    reserved = holds.readmit(view.funds, view.usage, hold)
    leased = await tx.meetings.save_provisioning(
        Provisioning(
            draft, hold, reserved.funds, reserved.usage, Lease(runtime.new_id(now), _LEASE_S),
            _claim(adoption), adoption.host.provider_user_id, abilities.creations_per_host_day is not None,
        )
    )  # fmt: skip
    if leased is None:
        raise NotAdopted("its host is disabled, or has another meeting at that time")
    if await settle(tx, runtime, leased, adoption.found.made, now) is None:
        raise RuntimeError("the account changed under its own lock")
    return draft


def _draft(adoption: Adoption, abilities: ProviderAbilities) -> Meeting:
    memo, found = adoption.memo, adoption.found
    return Meeting(
        id=adoption.meeting_id,
        account_id=memo.account_id,
        api_key_id=memo.api_key_id,
        status=MeetingStatus.PROVISIONING,
        title=found.title,
        description=found.description,
        start_at=memo.start_at,
        end_at=memo.start_at + timedelta(minutes=memo.duration),
        duration=memo.duration,
        capacity=memo.capacity,
        pricing_tier_id=memo.pricing_tier_id,
        credits=memo.credits,
        options=memo.options,
        host_id=adoption.host.id,
        provider=abilities.name,
        created_at=memo.created_at,
        password=found.made.password,
    )


def _claim(adoption: Adoption) -> Claim | None:
    memo = adoption.memo
    if memo.idempotency_key is None or memo.fingerprint is None:
        return None
    return Claim(memo.idempotency_key, memo.fingerprint, adoption.meeting_id)
