"""How far the verification of the ledger is: one run at a time, and what came of the last one."""

from datetime import datetime, timedelta

import pytest
from attrs import evolve

from meetcore.ports.lease import Lease
from meetcore.ports.ledger_verification import VerificationRun
from meetcore.testing.contracts.store_rig import VerificationRig
from meetcore.testing.contracts.transactions import AT, new_id

DAY_S = 86_400.0
MINUTE = timedelta(minutes=1)


async def _claim(rig: VerificationRig, seconds: float = 60.0) -> VerificationRun | None:
    return await rig.verification_log.claim(Lease(new_id(), seconds), AT)


async def _claimed(rig: VerificationRig, seconds: float = 60.0) -> VerificationRun:
    run = await _claim(rig, seconds)
    assert run is not None
    return run


async def _result(rig: VerificationRig) -> tuple[datetime | None, bool]:
    found = await rig.figures.read()
    return found.ledger_verified_at, found.ledger_is_sound


@pytest.mark.asyncio
class VerificationLogContract:
    """What `ports.ledger_verification.VerificationLog` promises."""

    async def test_one_at_a_time_works_on_a_run(self, rig: VerificationRig) -> None:
        run = await _claimed(rig)
        assert run == VerificationRun(run.token, AT)
        assert await _claim(rig) is None

    async def test_a_run_goes_on_where_it_was_left(self, rig: VerificationRig) -> None:
        run = await _claimed(rig)
        kept = evolve(run, after_account=new_id(), accounts=3, entries=40, findings=("a finding",))
        assert await rig.verification_log.save(kept, 0.0)
        again = await rig.verification_log.claim(Lease(new_id(), 60.0), AT + timedelta(hours=1))
        assert again is not None
        assert again == evolve(kept, token=again.token)

    async def test_a_run_that_is_to_wait_is_not_due(self, rig: VerificationRig) -> None:
        assert await rig.verification_log.save(await _claimed(rig), 60.0)
        assert await _claim(rig) is None

    async def test_who_lost_the_lease_keeps_nothing(self, rig: VerificationRig) -> None:
        lost = await _claimed(rig, 0.0)
        run = await _claimed(rig)
        assert run.started_at == lost.started_at
        assert not await rig.verification_log.save(evolve(lost, accounts=7, findings=("a finding",)), 0.0)
        assert not await rig.verification_log.finish(lost, AT, 0.0)
        assert await rig.verification_log.save(run, 0.0)
        assert (await _claimed(rig)).accounts == 0

    async def test_a_claim_that_is_renewed_lasts_longer(self, rig: VerificationRig) -> None:
        run = await _claimed(rig, 0.0)
        assert await rig.verification_log.renew(run, 60.0)
        assert await _claim(rig) is None
        assert await rig.verification_log.renew(run, 0.0)
        other = await _claimed(rig)
        assert not await rig.verification_log.renew(run, 60.0)
        assert await rig.verification_log.renew(other, 60.0)

    async def test_a_result_of_another_verification_is_kept_beside_a_run(self, rig: VerificationRig) -> None:
        run = await _claimed(rig)
        kept = evolve(run, after_account=new_id(), accounts=3)
        assert await rig.verification_log.save(kept, 0.0)
        await rig.verification_log.end_unsound_run(AT)
        await rig.verification_log.keep_result(AT, is_sound=True)
        found = await rig.figures.read()
        assert (found.ledger_verified_at, found.ledger_is_sound) == (AT, True)
        again = await _claimed(rig)
        assert again == evolve(kept, token=again.token)

    async def test_an_earlier_result_replaces_no_later_one(self, rig: VerificationRig) -> None:
        await rig.verification_log.keep_result(AT, is_sound=False)
        await rig.verification_log.keep_result(AT - timedelta(minutes=1), is_sound=True)
        found = await rig.figures.read()
        assert (found.ledger_verified_at, found.ledger_is_sound) == (AT, False)
        assert await _claim(rig) is not None, "the next run is due as before"

    async def test_a_run_that_is_over_leaves_its_result_and_the_next_begins_later(
        self, rig: VerificationRig
    ) -> None:
        run = evolve(await _claimed(rig), after_account=new_id(), accounts=5)
        assert await rig.verification_log.finish(run, AT + timedelta(minutes=5), DAY_S)
        found = await rig.figures.read()
        assert (found.ledger_verified_at, found.ledger_is_sound) == (AT + timedelta(minutes=5), True)
        assert await _claim(rig) is None

    async def test_the_next_run_begins_anew(self, rig: VerificationRig) -> None:
        run = evolve(await _claimed(rig), after_account=new_id(), accounts=5, findings=("a finding",))
        assert await rig.verification_log.finish(run, AT, 0.0)
        assert not (await rig.figures.read()).ledger_is_sound
        again = await _claimed(rig)
        assert again == VerificationRun(again.token, AT)
        assert await rig.verification_log.finish(again, AT, DAY_S)
        assert (await rig.figures.read()).ledger_is_sound

    async def test_the_ledger_is_unsound_from_the_first_finding_on(self, rig: VerificationRig) -> None:
        run = await _claimed(rig)
        assert await rig.verification_log.save(evolve(run, findings=("a finding",)), 0.0)
        found = await rig.figures.read()
        assert (found.ledger_verified_at, found.ledger_is_sound) == (None, False)

    async def test_findings_of_a_run_outlast_a_sound_verification_that_began_before_them(
        self, rig: VerificationRig
    ) -> None:
        run = await _claimed(rig)
        await rig.verification_log.end_unsound_run(AT + MINUTE)
        assert await rig.verification_log.save(evolve(run, findings=("a finding",)), 0.0)
        await rig.verification_log.keep_result(AT + MINUTE, is_sound=True)
        assert await _result(rig) == (None, False)
        run = await _claimed(rig)
        assert run.findings == ("a finding",)
        assert await rig.verification_log.finish(run, AT + 2 * MINUTE, DAY_S)
        await rig.verification_log.keep_result(AT + MINUTE, is_sound=True)
        assert await _result(rig) == (AT + 2 * MINUTE, False)

    async def test_findings_of_before_a_verification_end_with_their_run(self, rig: VerificationRig) -> None:
        run = evolve(await _claimed(rig), after_account=new_id(), accounts=3, findings=("a finding",))
        assert await rig.verification_log.save(run, 0.0)
        in_progress = await _claimed(rig)
        await rig.verification_log.end_unsound_run(AT + MINUTE)
        assert await _result(rig) == (AT + MINUTE, False), "what was found is its result"
        assert not await rig.verification_log.save(in_progress, 0.0)
        await rig.verification_log.keep_result(AT, is_sound=True)
        assert await _result(rig) == (AT + MINUTE, False), "another verification began before"
        await rig.verification_log.keep_result(AT + MINUTE, is_sound=True)
        assert await _result(rig) == (AT + MINUTE, True)
        again = await _claimed(rig)
        assert again == VerificationRun(again.token, AT)

    async def test_an_unsound_verification_is_kept_beside_a_later_sound_result(
        self, rig: VerificationRig
    ) -> None:
        assert await rig.verification_log.finish(await _claimed(rig), AT + 2 * MINUTE, DAY_S)
        await rig.verification_log.keep_result(AT + MINUTE, is_sound=False)
        assert await _result(rig) == (AT + 2 * MINUTE, False)

    async def test_a_sound_run_replaces_no_result_of_after_its_beginning(self, rig: VerificationRig) -> None:
        run = await _claimed(rig)
        await rig.verification_log.keep_result(AT + MINUTE, is_sound=False)
        assert await rig.verification_log.finish(run, AT + 3 * MINUTE, 0.0)
        assert await _result(rig) == (AT + MINUTE, False)
        later = await rig.verification_log.claim(Lease(new_id(), 60.0), AT + 2 * MINUTE)
        assert later is not None
        assert await rig.verification_log.finish(later, AT + 3 * MINUTE, DAY_S)
        assert await _result(rig) == (AT + 3 * MINUTE, True)
