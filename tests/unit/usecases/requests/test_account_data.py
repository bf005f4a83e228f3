"""Exports and erasures of accounts."""

from __future__ import annotations

import gc
import io
import json
import zipfile
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import ActionNotAllowed, Conflict, Gone, InvalidApiKey, NotFound, Unprocessable
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sessions import OperatorSession
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.requests.keys import Scope
from meetcore.usecases.members.operators import Impersonate
from meetcore.usecases.members.sign_in_links import Browser
from tests.unit.usecases.access_harness import OWNER, AccessHarness, token_of
from tests.unit.usecases.application import ApplicationHarness
from tests.unit.usecases.fakes import recorded
from tests.unit.usecases.note_scenario import note_scenario


async def exported(at: AccessHarness, kept: timedelta) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """The archive's README, and the lines of each file."""
    export = evolve(at.harness.process().account_data.export, events_kept=kept)
    archive = b"".join([piece async for piece in await export(at.harness.caller.account.id)])
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        texts = {name: opened.read(name).decode() for name in opened.namelist()}
    readme = texts.pop("README.txt")
    return readme, {name: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}


async def test_what_is_kept_of_people_is_in_an_export_without_tokens_and_links(at: AccessHarness) -> None:
    begun = await at.sign_in()
    owner = await at.access().sessions.find(begun.token)
    assert owner is not None
    guest = await at.guest(Role.VIEWER)
    await at.access().members.invite(owner, "b@example.com", Role.FINANCE, "192.0.2.1")
    readme, files = await exported(at, timedelta(days=30))
    assert [
        (one["id"], one["user_id"], one["guest_role"], one["client_address"], one["browser"])
        for one in files["sessions.jsonl"]
    ] == [
        (str(guest.session.id), None, "viewer", None, ""),
        (str(owner.session.id), str(owner.session.user_id), None, "192.0.2.1", "Mozilla/5.0"),
    ]
    assert [(one["kind"], one["recipient"]) for one in files["mails.jsonl"]] == [
        ("invitation", "b@example.com")
    ]
    [invited] = [one for one in files["audit_log.jsonl"] if one["action"] == "member.invited"]
    assert (invited["actor"], invited["details"]) == (OWNER, {"role": "finance", "email": "b@example.com"})
    assert {line.split()[0] for line in readme.splitlines() if ".jsonl  " in line} == set(files)
    content = json.dumps(files)
    for secret in (begun.token, at.last_token()):
        assert secret not in content


async def test_sessions_of_operators_are_exported_without_address_and_browser(at: AccessHarness) -> None:
    now, account_id = at.harness.now(), at.harness.caller.account.id
    one = Operator(UUID(int=7), "op@example.com", OperatorRole.SUPPORT, now)
    session = OperatorSession(
        id=UUID(int=8), operator_id=one.id, created_at=now, last_seen_at=now, authenticated_at=now
    )
    async with at.harness.store.begin() as tx:
        await tx.operators.add(one)
        await tx.sign_in.add_operator_session(session, bytes(32))
    view = Impersonate(at.harness.store, at.harness.runtime)
    await view.begin(SignedInOperator(session, one), account_id, Browser(None, "Operators/1.0", "192.0.2.9"))
    _, files = await exported(at, timedelta(days=30))
    [line] = files["sessions.jsonl"]
    assert (line["is_operators"], line["client_address"], line["browser"]) == (True, None, None)
    assert "Operators/1.0" not in json.dumps(files)


async def test_an_export_says_how_long_events_are_kept(at: AccessHarness) -> None:
    readme, _ = await exported(at, timedelta(days=14))
    assert readme.count("of the last 14 days") == 2
    assert "of the last 7 days" in readme


async def test_an_export_that_never_streams_frees_its_place(harness: ApplicationHarness) -> None:
    export, id_ = harness.process().account_data.export, harness.caller.account.id
    with pytest.raises(NotFound):
        await export(UUID(int=9))
    assert export.running == set()
    pieces = await export(id_)
    with pytest.raises(Unprocessable):
        await export(id_)
    del pieces
    gc.collect()
    assert export.running == set()


async def test_an_export_that_is_over_frees_no_place_of_the_next(harness: ApplicationHarness) -> None:
    export, id_ = harness.process().account_data.export, harness.caller.account.id
    first = await export(id_)
    assert [piece async for piece in first]
    second = await export(id_)
    del first
    gc.collect()
    assert export.running == {id_}
    del second


async def test_an_erased_account_gets_no_access(at: AccessHarness) -> None:
    owner = await at.signed_in()
    id_ = owner.account.id
    access = at.access()
    link = await access.portal_links.for_guest(id_, Role.OWNER)
    await at.harness.process().account_data.erase(id_)
    with pytest.raises(Gone):
        await access.redeem_link.for_customer(token_of(link.url), Browser())
    with pytest.raises(Conflict, match="erased"):
        await access.portal_links.for_guest(id_, Role.OWNER)
    with pytest.raises(Conflict, match="erased"):
        await access.members.invite(owner, OWNER, Role.OWNER, None)
    with pytest.raises(Conflict, match="erased"):
        await at.harness.administration.keys.create(id_, [Scope.MEETINGS_READ])
    assert at.harness.count("sessions") == 0


async def test_an_owner_who_is_one_no_more_erases_nothing(at: AccessHarness) -> None:
    one = await at.signed_in()
    other = await at.join(one, "b@example.com", Role.OWNER)
    assert other.user is not None
    members, erase = at.access().members, at.harness.process().account_data.erase
    await members.change_role(one, other.user.id, Role.VIEWER, None)
    with pytest.raises(ActionNotAllowed):
        await erase.for_member(other, None)
    await members.remove(one, other.user.id, None)
    with pytest.raises(NotFound):
        await erase.for_member(other, None)
    assert at.harness.count("account_erasures") == 0
    erased = await erase.for_member(one, None)
    assert await erase.for_member(one, None) == erased


async def test_a_call_that_was_let_in_before_the_erasure_books_nothing() -> None:
    harness = ApplicationHarness()
    await harness.start()
    await harness.process().account_data.erase(harness.caller.account.id)
    with pytest.raises(InvalidApiKey, match="erased"):
        await harness.make("k")
    assert harness.count("meetings") == 0


async def test_a_recording_that_comes_after_the_erasure_is_removed_at_the_provider() -> None:
    one = await note_scenario()
    one.harness.write("DELETE FROM recordings")
    async with one.harness.process().ports.store.begin() as tx:
        await tx.erasures.start(one.harness.caller.account.id, one.harness.now())
    for name in ("rapat", "transcript"):
        await one.record(recorded(name))
        assert one.status() is RecordingStatus.EXPIRED
        await one.measure()
        assert one.harness.fake_recordings.contents == {}
    assert one.harness.notes() == []
