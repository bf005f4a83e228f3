"""An erased account gets nothing new: no link, no session, no invitation, no key, no meeting."""

from __future__ import annotations

import pytest

from meetcore.domain.errors import Conflict, Gone, InvalidApiKey
from meetcore.domain.members.roles import Role
from meetcore.domain.requests.keys import Scope
from meetcore.usecases.redeem_sign_in_link import Browser
from tests.unit.usecases.access_harness import OWNER, AccessHarness, token_of
from tests.unit.usecases.application import ApplicationHarness, request
from tests.unit.usecases.fakes import recorded
from tests.unit.usecases.note_scenario import note_scenario


async def test_an_erased_account_gets_no_access() -> None:
    at = await AccessHarness().start()
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
        await at.harness.administration.create_key(id_, [Scope.MEETINGS_READ])
    assert at.harness.state.committed.sessions == {}


async def test_a_call_that_was_let_in_before_the_erasure_books_nothing() -> None:
    harness = ApplicationHarness()
    await harness.start()
    await harness.process().account_data.erase(harness.caller.account.id)
    with pytest.raises(InvalidApiKey, match="erased"):
        await harness.create()(harness.caller, request(), harness.request_key("k"), harness.now())
    assert harness.state.committed.meetings == {}


async def test_a_recording_that_comes_after_the_erasure_is_not_opened() -> None:
    one = await note_scenario()
    async with one.harness.state.change() as tables:
        tables.recordings.clear()
    async with one.harness.process().ports.store.begin() as tx:
        await tx.erasures.start(one.harness.caller.account.id, one.harness.now())
    await one.record(recorded("rapat"))
    assert one.harness.state.committed.recordings == {}
