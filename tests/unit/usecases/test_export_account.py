"""Exports of accounts: what is in them; each once at a time, and its place is free again whatever happens."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import zipfile
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sessions import OperatorSession
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.impersonate import Impersonate
from meetcore.usecases.redeem_sign_in_link import Browser
from tests.unit.usecases.access_harness import OWNER, AccessHarness
from tests.unit.usecases.application import ApplicationHarness


async def exported(at: AccessHarness, kept: timedelta) -> tuple[str, dict[str, list[dict[str, Any]]]]:
    """The archive's README, and the lines of each file."""
    export = evolve(at.harness.process().account_data.export, events_kept=kept)
    archive = b"".join([piece async for piece in await export(at.harness.caller.account.id)])
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        texts = {name: opened.read(name).decode() for name in opened.namelist()}
    readme = texts.pop("README.txt")
    return readme, {name: [json.loads(line) for line in text.splitlines()] for name, text in texts.items()}


async def test_what_is_kept_of_people_is_in_an_export_without_tokens_and_links() -> None:
    at = await AccessHarness().start()
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


async def test_sessions_of_operators_are_exported_without_address_and_browser() -> None:
    at = await AccessHarness().start()
    now, account_id = at.harness.now(), at.harness.caller.account.id
    one = Operator(UUID(int=7), "op@example.com", OperatorRole.SUPPORT, now)
    session = OperatorSession(
        id=UUID(int=8), operator_id=one.id, created_at=now, last_seen_at=now, authenticated_at=now
    )
    view = Impersonate(at.harness.store, at.harness.runtime)
    await view.begin(SignedInOperator(session, one), account_id, Browser(None, "Operators/1.0", "192.0.2.9"))
    _, files = await exported(at, timedelta(days=30))
    [line] = files["sessions.jsonl"]
    assert (line["is_operators"], line["client_address"], line["browser"]) == (True, None, None)
    assert "Operators/1.0" not in json.dumps(files)


async def test_an_export_says_how_long_events_are_kept() -> None:
    at = await AccessHarness().start()
    readme, _ = await exported(at, timedelta(days=14))
    assert readme.count("of the last 14 days") == 2
    assert "of the last 7 days" in readme


async def test_of_two_exports_at_once_one_is_made() -> None:
    harness = await ApplicationHarness().start()
    export, id_ = harness.process().account_data.export, harness.caller.account.id
    made = await asyncio.gather(export(id_), export(id_), return_exceptions=True)
    assert [isinstance(one, Unprocessable) for one in made] == [False, True]
    assert export.running == {id_}


async def test_an_export_that_never_streams_frees_its_place() -> None:
    harness = await ApplicationHarness().start()
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


async def test_an_export_that_is_over_frees_no_place_of_the_next() -> None:
    harness = await ApplicationHarness().start()
    export, id_ = harness.process().account_data.export, harness.caller.account.id
    first = await export(id_)
    assert [piece async for piece in first]
    second = await export(id_)
    del first
    gc.collect()
    assert export.running == {id_}
    del second
