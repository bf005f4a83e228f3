"""Refused bodies of `POST /meetings` (spec 4.1, rule 7/400): each edge, and bytes that are no JSON."""

from __future__ import annotations

import pytest

from tests.support.api_harness import ApiHarness, Customer, Funds, fields_of

FLAGS = ("with_recording", "auto_notulen", "must_login", "mic_off", "email_notification")
ARABIC = str.maketrans("0123456789", "".join(chr(0x660 + digit) for digit in range(10)))
"""Digits to every eye and to `\\d`, but not to RFC 3339."""
ARABIC_DATE, ARABIC_TIME = "2026-12-01".translate(ARABIC), "09:00".translate(ARABIC)

REFUSED = [
    *(("title", value) for value in ("", "a" * 201, "🎉" * 201, None, 5, True, ["a"], {"a": 1}, ...)),
    *(("title", f"a{char}b") for char in "\x00\n\t\r\x1b\x7f\x85"),
    *(("description", value) for value in ("a" * 1001, None, 5, "a\x00", "a\x0b", "a\x7f")),
    *(("password", value) for value in ("abc", "a" * 11, "", None, 1234, "ab\ncd")),
    *(("pricing_tier_id", value) for value in ("", None, 5, ..., "a\x00b")),
    *(("date", value) for value in ("2026-02-30", "2027-02-29", "2026-13-01", "2026-00-10", "0000-01-01")),
    *(("date", value) for value in ("2026-1-1", "20261201", "01-12-2026", "2026-12-01 ", "2026-12-01\n", "")),
    *(("date", value) for value in ("2026-12-01T00:00", ARABIC_DATE, None, 20261201, ...)),
    *(("start_time", value) for value in ("24:00", "23:60", "9:00", "09:00:00", "0900", "", "09:00\n")),
    *(("start_time", value) for value in (ARABIC_TIME, "-1:00", None, 900, ...)),
]  # fmt: skip


@pytest.mark.spec("4.1/title")
async def test_a_title_may_be_blank_and_is_kept_as_it_was_sent(customer: Customer) -> None:
    """Its length is bounded, not its meaning."""
    assert (await customer.make_meeting(title="   "))["title"] == "   "


@pytest.mark.spec(
    "7/400", "4.1/title", "4.1/date", "4.1/start_time", "4.1/tier", "4.1/description", "4.1/password"
)
@pytest.mark.parametrize(("field", "value"), REFUSED)
async def test_values_that_are_refused(
    harness: ApiHarness, customer: Customer, field: str, value: object
) -> None:
    fields = fields_of(await customer.post("/meetings", harness.body(**{field: value})))
    assert set(fields) == {field}
    assert all(fields[field])
    assert await customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("7/400", "4.1/errors")
async def test_all_problems_at_once(customer: Customer) -> None:
    fields = fields_of(
        await customer.post(
            "/meetings",
            {
                "title": "a\x00",
                "date": "2026-02-30",
                "start_time": "24:00",
                "password": "abc",
                "mic_off": "yes",
                "with_recordings": True,
                "description": None,
            },
        )
    )
    assert set(fields) == {
        "title",
        "date",
        "start_time",
        "password",
        "mic_off",
        "with_recordings",
        "description",
        "pricing_tier_id",
    }


@pytest.mark.spec("7/400")
async def test_fields_that_the_operation_does_not_know(harness: ApiHarness, customer: Customer) -> None:
    odd = {"with_recordng": True, "": 1, "Title": "x", "__class__": "y", "é\x00": 2, "id": "z"}
    fields = fields_of(await customer.post("/meetings", harness.body(**odd)))
    assert len(fields) == len(odd)
    assert set(fields) >= {"with_recordng", "", "Title", "__class__", "id"}


@pytest.mark.spec("7/400", "1/base")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"{}}",
        b'{"title":"a",}',
        b"{'title':'a'}",
        b'{"title":NaN}',
        b'{"title":Infinity}',
        b'{"title":-Infinity}',
        b'{"title":"a"} // no',
        b'{"title":"\xff\xfe"}',
        b'{"title":"\xed\xa0\x80"}',
        b'{"title":"a\nb"}',
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"[]",
        b"null",
        b'"text"',
        b"7",
        b'{"title":' + b"[" * 40 + b"]" * 40 + b"}",
        b"[" * 60_000,
        b'{"a":' * 9000 + b"1" + b"}" * 9000,
        b'{"title":' + b"9" * 5000 + b"}",
        b'{"title":1e999}',
        b'{"title":01}',
        '{"title":"a"}'.encode("utf-16"),
    ],
)
async def test_bodies_that_are_no_json_object(customer: Customer, raw: bytes) -> None:
    assert fields_of(await customer.send("POST", "/meetings", raw=raw))
    assert await customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("7/400")
@pytest.mark.parametrize("escape", [rb"\ud800", rb"\udc00x", rb"\ude00\ud83d", rb"\u0000"])
async def test_escapes_that_stand_for_no_character(
    harness: ApiHarness, customer: Customer, escape: bytes
) -> None:
    slot = harness.slots.take()
    raw = (
        b'{"title":"a' + escape + b'","pricing_tier_id":"standard-100",'
        + f'"date":"{slot:%Y-%m-%d}","start_time":"{slot:%H:%M}"'.encode() + b"}"
    )  # fmt: skip
    assert fields_of(await customer.send("POST", "/meetings", raw=raw))


@pytest.mark.spec("7/400")
@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**400])
async def test_numbers_of_any_size(harness: ApiHarness, customer: Customer, number: int) -> None:
    fields = fields_of(await customer.post("/meetings", harness.body(title=number)))
    assert fields


@pytest.mark.spec("4.1/flags")
@pytest.mark.parametrize("flag", FLAGS)
async def test_each_flag_is_a_boolean(harness: ApiHarness, customer: Customer, flag: str) -> None:
    for taken in (True, False):
        assert (await customer.post("/meetings", harness.body(**{flag: taken}))).status_code == 201
    wrong: tuple[object, ...] = ("true", 1, 0, None, [], {}, 1.0)
    for value in wrong:
        fields = fields_of(await customer.post("/meetings", harness.body(**{flag: value})))
        assert set(fields) == {flag}, value
