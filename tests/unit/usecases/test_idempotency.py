"""What is stored under a key, and the order of the steps of work of one transaction."""

import json

import pytest

from meetcore.domain.errors import HostUnresolved, NotFound, ServiceUnavailable
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.ports.store import Transaction
from meetcore.usecases.idempotency import Outcome, Refusal, decode_outcome, encode_outcome, run_once
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, DyingStore

RECORD = {
    "id": "018f",
    "title": "Rapat “pagi” ✓",
    "credits": 10,
    "is": [True, None, {"at": 1}],
    "b": 1,
    "a": 2,
}
REFUSAL = Refusal("conflict", "There is one.", {"id": "018f", "aa": 1}, "request-1")


@pytest.mark.parametrize("outcome", [Outcome(), Outcome(RECORD), Outcome(refusal=REFUSAL)])
def test_a_stored_outcome_is_read_back_in_its_order(outcome: Outcome) -> None:
    read = decode_outcome(encode_outcome(outcome))
    assert read == outcome
    assert json.dumps([read.record, read.refusal and read.refusal.details]) == json.dumps(
        [outcome.record, outcome.refusal and outcome.refusal.details]
    )


def test_the_deliveries_of_the_first_request_are_not_due_again() -> None:
    assert decode_outcome(encode_outcome(Outcome(RECORD, due=2))) == Outcome(RECORD)


@pytest.mark.parametrize(
    ("stored", "outcome"),
    [
        (b'[201,"/api/v1/meetings/018f"]\n{"id":"018f"}', Outcome({"id": "018f"})),
        (b"[204,null]\n", Outcome()),
        (
            b'[409,null]\n{"error":{"code":"conflict","message":"There is one.","docs_url":"https://x/docs",'
            b'"request_id":"request-1","details":{"id":"018f","aa":1}}}',
            Outcome(refusal=REFUSAL),
        ),
    ],
)
def test_what_earlier_releases_stored_is_still_read(stored: bytes, outcome: Outcome) -> None:
    assert decode_outcome(stored) == outcome


async def work(_: Transaction) -> Outcome:
    return Outcome(RECORD)


async def test_work_without_preparation_needs_one_transaction() -> None:
    harness, crash_point = await ApplicationHarness().start(), CrashPoint()
    store = DyingStore(harness.store, crash_point)
    await run_once(store, harness.caller.account.id, harness.request_key("k"), work)
    assert crash_point.burnt == 3, "before, at the end of and after one transaction"


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_refusal_of_the_preparation_is_the_outcome_if_it_is_final(key: str | None) -> None:
    harness = await ApplicationHarness().start()

    async def refuse() -> None:
        raise NotFound("No such thing.")

    async def refuse_for_now() -> None:
        raise HostUnresolved("Not now.")

    async def prepare() -> None:
        raise AssertionError("a replay prepares nothing")

    account_id, request = harness.caller.account.id, harness.request_key(key)
    with pytest.raises(HostUnresolved):
        await run_once(harness.store, account_id, request, work, refuse_for_now)
    first = await run_once(harness.store, account_id, request, work, refuse)
    assert first.refusal == Refusal("not_found", "No such thing.", {}, request.request_id)
    if key is not None:
        again = await run_once(harness.store, account_id, request, work, prepare)
        assert (again.refusal, again.is_replay) == (first.refusal, True)


async def test_work_whose_first_request_is_unfinished_is_not_repeated() -> None:
    harness = await ApplicationHarness().start()
    account_id, request = harness.caller.account.id, harness.request_key("k")
    async with harness.store.begin() as tx:
        record = IdempotencyRecord("k", request.fingerprint, is_done=True)
        await tx.idempotency.save(account_id, record)
    with pytest.raises(ServiceUnavailable):
        await run_once(harness.store, account_id, request, work)
