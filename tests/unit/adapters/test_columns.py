"""Columns declared once: lists for statements, parameters, and records of rows."""

from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from uuid import UUID

import pytest
from attrs import evolve, frozen

from meetcore.adapters.postgres.columns import Columns
from tests.support.fakes import PlainCipher

ACCOUNT, ID = UUID(int=1), UUID(int=2)
AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@frozen
class Place:
    type: str
    id: str


@frozen
class Thing:
    id: UUID
    account_id: UUID
    colour: Colour
    others: tuple[Colour, ...]
    seen_at: datetime | None
    place: Place
    secret: str | None
    guest: int = 0


THINGS = Columns(
    Thing, "t", "thing_", renamed={"seen_at": "at"}, nested={"place": "place_"},
    sealed={"secret": "{account_id}/things/{id}"}, without=("guest",),
)  # fmt: skip
THING = Thing(ID, ACCOUNT, Colour.RED, (Colour.BLUE,), AT, Place("room", "7"), "hush")


def test_the_lists_of_statements() -> None:
    assert THINGS.names == "id, account_id, colour, others, at, secret, place_type, place_id"
    assert THINGS.select.split(",\n    ")[0].startswith(
        "t.id AS thing_id, t.account_id, t.colour AS thing_colour"
    )
    assert "t.place_id AS thing_place_id" in THINGS.select
    assert THINGS.values.replace("\n    ", " ").startswith("%(thing_id)s, %(account_id)s, %(thing_colour)s,")


def test_rows_are_compared_column_by_column_and_what_may_be_null_as_such() -> None:
    compared = THINGS.equal("a", "b").replace("\n    ", " ").split(" AND ")
    assert len(compared) == len(THINGS.names.replace("\n    ", " ").split(", "))
    assert compared[0] == "a.id = b.id"
    assert compared[4:] == [
        "a.at IS NOT DISTINCT FROM b.at", "a.secret IS NOT DISTINCT FROM b.secret",
        "a.place_type = b.place_type", "a.place_id = b.place_id",
    ]  # fmt: skip


def test_a_row_has_the_names_of_the_columns() -> None:
    row = Columns(Place, "p", "thing_place_", begins="place_").row(THING.place)
    assert row == {"place_type": "room", "place_id": "7"}


def test_a_record_is_read_as_it_was_written() -> None:
    cipher = PlainCipher()
    row = THINGS.parameters(THING, cipher)
    assert (row["thing_colour"], row["thing_others"], row["thing_place_type"]) == ("red", ["blue"], "room")
    assert THINGS.read(row, cipher) == THINGS.find(row, cipher) == THING
    assert THINGS.read(row, cipher, guest=5) == evolve(THING, guest=5)
    nothing = evolve(THING, seen_at=None, secret=None)
    assert THINGS.read(THINGS.parameters(nothing, cipher), cipher) == nothing


def test_an_instant_is_converted_to_utc() -> None:
    cipher = PlainCipher()
    in_jakarta = AT.astimezone(timezone(timedelta(hours=7)))
    found = THINGS.read(THINGS.parameters(THING, cipher) | {"thing_at": in_jakarta}, cipher)
    assert found.seen_at == AT
    assert found.seen_at.tzinfo is UTC


def test_a_text_does_not_open_in_another_record() -> None:
    cipher = PlainCipher()
    row = THINGS.parameters(THING, cipher) | {"thing_id": UUID(int=3)}
    assert THINGS.read(row, cipher).secret is None


def test_an_outer_join_without_a_row_has_no_record() -> None:
    assert THINGS.find({"thing_id": None}) is None


def test_sealed_columns_need_a_cipher() -> None:
    with pytest.raises(AssertionError):
        THINGS.parameters(THING)
