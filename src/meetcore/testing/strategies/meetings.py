"""Meetings, the requests for them, hosts and providers.

Owns values that keep the rules of `meetcore.domain.meetings.meetings` and `hosts`; a request drawn here can
be planned with the catalogue, the provider and the moment that it was drawn for.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import (
    OPTION_ABILITIES,
    Meeting,
    MeetingOptions,
    MeetingRequest,
    MeetingStatus,
    ProviderAbilities,
    Provisioned,
)
from meetcore.domain.meetings.passwords import PasswordRule
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD, WIB
from meetcore.domain.money.pricing import TierCatalogue

__all__ = [
    "host_pools",
    "hosts",
    "meeting_requests",
    "meetings",
    "password_rules",
    "passwords",
    "provider_abilities",
    "provisioned",
]

_NEEDED_ABILITY = {name: ability for names, ability, _ in OPTION_ABILITIES for name in names}
_IDS = st.uuids(version=4)
_CHARACTERS = st.characters(exclude_categories=("Cc", "Cs"))


def hosts(max_capacity: int = 6) -> SearchStrategy[Host]:
    """Hosts with few seats, so that many fit equally well; some disabled."""
    return st.builds(
        Host,
        id=st.integers(1, 50).map(lambda number: UUID(int=number)),
        provider_user_id=st.just("user"),
        capacity=st.integers(1, max_capacity),
        max_concurrent=st.integers(1, 3),
        uses=st.integers(0, 3),
        is_active=st.booleans(),
        creations=st.integers(0, 3),
        creations_on=st.none() | st.dates(),
        unavailable_until=st.none() | st.datetimes(timezones=st.just(UTC)),
    )


def host_pools(max_size: int = 8, max_capacity: int = 6) -> SearchStrategy[list[Host]]:
    """Up to `max_size` hosts, no two of one id."""
    return st.lists(hosts(max_capacity), max_size=max_size, unique_by=lambda host: host.id)


def password_rules() -> SearchStrategy[PasswordRule]:
    """What a provider may take: any alphabet without doubles, any range of lengths up to 20."""
    alphabets = st.text(min_size=1, max_size=100).map(lambda text: "".join(dict.fromkeys(text)))
    return st.builds(
        lambda alphabet, least, more: PasswordRule(alphabet, least, least + more),
        alphabets, st.integers(1, 10), st.integers(0, 10),
    )  # fmt: skip


def passwords(rule: PasswordRule) -> SearchStrategy[str]:
    """Passwords that the rule takes."""
    return st.text(rule.alphabet, min_size=rule.min_length, max_size=rule.max_length)


def provider_abilities() -> SearchStrategy[ProviderAbilities]:
    """Providers that take passwords or not, and can do each other thing or not."""
    able = st.booleans()
    return st.builds(
        ProviderAbilities, st.just("any"), st.none() | password_rules(), able, able, able, able, able, able,
        st.none() | st.integers(1, 100), st.none() | st.integers(6, 10),
    )  # fmt: skip


@st.composite
def meeting_requests(
    draw: st.DrawFn, catalogue: TierCatalogue, abilities: ProviderAbilities, now: datetime
) -> MeetingRequest:
    """Requests that can be planned: a tier on sale, a start in time, nothing that the provider cannot do.

    The catalogue sells at least one tier.
    """
    # Starts are in whole minutes: the first one that is not past, and the last one that is not too far.
    first = now.astimezone(UTC) + timedelta(minutes=1, microseconds=-1)
    minutes_ahead = st.integers(0, MAX_DAYS_AHEAD * 24 * 60 - 1)
    local = (first + timedelta(minutes=draw(minutes_ahead))).astimezone(WIB)
    able = {name: getattr(abilities, needed) for name, needed in _NEEDED_ABILITY.items()}
    flags = {name: draw(st.booleans()) and is_able for name, is_able in able.items()}
    return MeetingRequest(
        title=draw(st.text(_CHARACTERS, min_size=1, max_size=20)),
        date=local.date().isoformat(),
        start_time=f"{local:%H:%M}",
        pricing_tier_id=draw(st.sampled_from([tier.id for tier in catalogue.on_sale()])),
        description=draw(st.none() | st.text(_CHARACTERS | st.sampled_from("\t\n\r"), max_size=20)),
        password=None if abilities.password is None else draw(st.none() | passwords(abilities.password)),
        options=MeetingOptions(**flags),
    )


def provisioned() -> SearchStrategy[Provisioned]:
    """What a provider may answer when it has made a meeting."""
    return st.builds(
        Provisioned,
        st.text("0123456789", min_size=1, max_size=12),
        st.text("0123456789", min_size=1, max_size=12).map("https://meet.example/".__add__),
        st.none() | st.text(min_size=1, max_size=10),
    )


def meetings(start_at: datetime, **fixed: SearchStrategy[Any]) -> SearchStrategy[Meeting]:
    """Stored meetings that start at this instant and last at most a day, in any state.

    Args:
        fixed: a strategy for each field that is to be drawn otherwise.
    """
    texts, figures = st.none() | st.text(max_size=10), st.integers(1, 1_000)
    fields: dict[str, SearchStrategy[Any]] = {
        "id": _IDS,
        "account_id": _IDS,
        "api_key_id": _IDS,
        "status": st.sampled_from(MeetingStatus),
        "title": st.text(min_size=1, max_size=10),
        "description": texts,
        "duration": st.integers(1, 24 * 60),
        "capacity": st.none() | figures,
        "pricing_tier_id": st.just("standard-100"),
        "credits": figures,
        "options": st.builds(MeetingOptions, **{name: st.booleans() for name in _NEEDED_ABILITY}),
        "host_id": st.none() | _IDS,
        "provider": st.sampled_from(["zoom", "jitsi", "sandbox"]),
        "created_at": st.timedeltas(timedelta(0), timedelta(days=365)).map(lambda ago: start_at - ago),
        **dict.fromkeys(("password", "host_key", "join_url", "provider_meeting_id"), texts),
        "charge_id": st.none() | _IDS,
        "credits_refunded": st.none() | st.integers(0, 1_000),
    }

    def meeting(drawn: dict[str, Any]) -> Meeting:
        end_at = start_at + timedelta(minutes=drawn["duration"])
        return Meeting(**{"start_at": start_at, "end_at": end_at, **drawn})

    return st.fixed_dictionaries({**fields, **fixed}).map(meeting)
