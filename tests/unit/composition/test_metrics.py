"""What the application reports to the metrics, as Prometheus would read it."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import evolve, field, frozen
from prometheus_client import CollectorRegistry, generate_latest

from meetcore.adapters import prometheus
from meetcore.adapters.postgres.pool import PoolState
from meetcore.adapters.prometheus import (
    BUILD,
    ENDED_KEPT,
    FIGURES,
    UP,
    Exposition,
    PrometheusMetrics,
    forget_ended,
)
from meetcore.composition.application import build
from meetcore.composition.observability import report_pool
from meetcore.composition.policy import Policy
from meetcore.domain.errors import UpstreamError
from meetcore.domain.meetings.meetings import MeetingRequest
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.sender_faults import SenderFault
from meetcore.domain.webhooks.signature import new_secret
from meetcore.domain.webhooks.views import ClaimLimits
from meetcore.ports.figures import Figures
from meetcore.ports.observability import NO_METRICS, PROCESS_METRICS, Metrics
from meetcore.ports.payments import GatewayRefused, GatewayUnknown
from meetcore.ports.recording_files import ByteRange, FileGone, FilesUnavailable, RangeUnsatisfiable
from meetcore.ports.webhook_sender import OutgoingPost
from meetcore.usecases.webhooks.deliver import result_of
from tests.support.fakes import FakeRecordingFiles
from tests.support.outbox import BAD, outbox
from tests.support.postgres_rig import PostgresRig
from tests.support.recording_fakes import a_recording
from tests.support.scrape import samples_of, value
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash, request
from tests.unit.usecases.note_scenario import note_scenario
from tests.unit.usecases.payments.gateway import PaymentHarness


@frozen
class Kept:
    """Metrics in memory, and what is in them."""

    registry: CollectorRegistry = field(factory=CollectorRegistry)

    def metrics(self) -> PrometheusMetrics:
        return PrometheusMetrics(self.registry)

    def __call__(self, name: str, **labels: str) -> float:
        return value(samples_of(generate_latest(self.registry).decode()), f"meetcore_{name}", **labels)


async def measured(**changes: Any) -> tuple[ApplicationHarness, Kept]:
    kept, harness = Kept(), ApplicationHarness(**changes)
    harness.metrics = kept.metrics()
    return await harness.start(), kept


async def create(harness: ApplicationHarness, key: str, wanted: MeetingRequest | None = None) -> Any:
    creating = harness.create()
    return await creating(harness.caller, wanted or request(), harness.request_key(key), harness.now())


async def test_credits_and_calls_of_the_provider_are_counted() -> None:
    harness, kept = await measured()
    assert kept("credits_total", kind="topup") == 100
    outcome = await create(harness, "a")
    await create(harness, "a")
    assert kept("credits_total", kind="meeting_charge") == 10
    assert kept("provider_calls_total", call="create", result="done") == 1
    assert kept("provider_call_duration_seconds_count", call="create") == 1
    cancelling = harness.process().api.cancel_meeting
    meeting_id = harness.meetings()[0].id
    assert str(meeting_id) == outcome.record["id"]
    for _ in range(2):
        await cancelling(harness.caller, meeting_id, harness.request_key("c", "cancel"), harness.now())
    assert kept("credits_total", kind="meeting_refund") == 10
    await harness.administration.adjust(harness.caller.account.id, -7, "a correction")
    await harness.administration.adjust(harness.caller.account.id, 3, "a correction")
    taken, added = (kept("credits_total", kind=f"adjustment_{way}") for way in ("taken", "added"))
    assert (taken, added) == (7, 3)


async def test_refusals_of_the_provider_are_counted_by_their_code() -> None:
    harness, kept = await measured()
    with pytest.raises(UpstreamError):
        await create(harness, "a", request(title="[sandbox:refuse]"))
    assert kept("provider_calls_total", call="create", result="refused") == 1
    assert kept("credits_total", kind="meeting_charge") == 0


async def test_calls_of_the_payment_gateway_are_counted_by_their_result() -> None:
    kept, shop = Kept(), PaymentHarness()
    shop.harness.metrics = kept.metrics()
    await shop.start()
    await shop.bought()
    shop.faults.plan("open", GatewayRefused("a revoked key"))
    with pytest.raises(UpstreamError):
        await shop.buy()
    shop.faults.plan("find", GatewayUnknown("away"))
    shop.harness.clock.advance(121)
    await shop.follow()
    counts = {
        ("checkout", "done"): 1,
        ("checkout", "refused"): 1,
        ("find", "unknown"): 1,
        ("find", "done"): 0,
    }
    for (call, result), count in counts.items():
        assert kept("gateway_calls_total", call=call, result=result) == count


async def test_calls_about_files_of_recordings_are_counted_by_what_became_of_them() -> None:
    kept, at_provider = Kept(), FakeRecordingFiles()
    ports = evolve(ApplicationHarness().process().ports, files=at_provider, metrics=kept.metrics())
    files = build(ports, Policy()).ports.files
    [file] = a_recording(sizes=[200_000]).files
    at_provider.put("meeting-1", file, bytes(200_000))
    assert await files.find("meeting-1") == (file,)
    async with files.open(file, ByteRange(10)) as opened:
        assert sum([len(chunk) async for chunk in opened.chunks]) == 199_990
    at_provider.breaks_after = 100_000
    with pytest.raises(FilesUnavailable):
        async with files.open(file) as opened:
            _ = [chunk async for chunk in opened.chunks]
    with pytest.raises(RangeUnsatisfiable):
        async with files.open(file, ByteRange(200_000)):
            pass
    await files.remove("meeting-1", file)
    with pytest.raises(FileGone):
        async with files.open(file):
            pass
    at_provider.is_unavailable = True
    with pytest.raises(FilesUnavailable):
        await files.find("meeting-1")
    counts = {
        ("files_find", "done"): 1, ("files_open", "done"): 2, ("files_read", "unavailable"): 1,
        ("files_open", "out_of_range"): 1, ("files_remove", "done"): 1, ("files_open", "gone"): 1,
        ("files_find", "unavailable"): 1,
    }  # fmt: skip
    for (call, result), count in counts.items():
        assert kept("provider_calls_total", call=call, result=result) == count, (call, result)
    assert kept("provider_calls_total") == sum(counts.values())


async def test_a_meeting_that_another_process_left_is_counted_by_its_outcome() -> None:
    harness, kept = await measured()
    with pytest.raises(SimulatedCrash):
        await harness.create(CrashPoint(4))(
            harness.caller, request(), harness.request_key("k"), harness.now()
        )
    harness.expire_leases()
    await harness.reconcile().sweep()
    await harness.reconcile().sweep()
    assert kept("leases_expired_total", subject="meeting") == 1
    assert kept("meetings_reconciled_total") == 1


async def test_a_meeting_without_a_host_is_counted_by_its_seats() -> None:
    harness, kept = await measured(hosts=0)
    with pytest.raises(Exception, match="host"):
        await create(harness, "a")
    assert kept("no_host_total", capacity="100") == 1


async def test_a_note_is_counted_as_charged_or_by_the_reason_of_its_failure() -> None:
    for is_deaf in (False, True):
        one, kept = await note_scenario(), Kept()
        one.harness.metrics = kept.metrics()
        one.harness.listener.is_deaf = is_deaf
        await one.ask()
        await one.work(one.harness.write_notes())
        assert kept("notes_failed_total", reason="no_speech") == is_deaf
        assert (kept("credits_total", kind="notulen_charge") > 0) is not is_deaf


class Sender:
    """Fails every post."""

    async def post(self, _: OutgoingPost) -> Any:
        return BAD


async def test_attempts_and_endpoints_that_they_disable_are_counted(rig: PostgresRig) -> None:
    kept = Kept()
    harness = ApplicationHarness()
    ports = evolve(
        harness.process().ports, clock=rig.clock, store=rig.store, sender=cast(Any, Sender()),
        metrics=kept.metrics(),
    )  # fmt: skip
    limits = ClaimLimits(per_endpoint=500, per_account=500, per_host=500, per_host_per_s=500)
    deliver = build(ports, Policy(claim_limits=limits, retry_schedule=RetrySchedule((5,)))).deliver
    assert deliver is not None
    await outbox(rig, DISABLE_AFTER_FAILURES, secret=new_secret(bytes(32)))
    await deliver.record([await deliver.post(one) for one in await deliver.claim(500)])
    assert kept("delivery_attempts_total", result=result_of(BAD)) == DISABLE_AFTER_FAILURES
    assert kept("delivery_attempt_duration_seconds_count") == DISABLE_AFTER_FAILURES
    assert kept("endpoints_disabled_total") == 1


async def test_deliveries_that_no_key_opens_are_counted_as_a_fault_of_this_side(rig: PostgresRig) -> None:
    kept = Kept()
    ports = evolve(
        ApplicationHarness().process().ports, clock=rig.clock, store=rig.store, sender=cast(Any, Sender()),
        metrics=kept.metrics(),
    )  # fmt: skip
    deliver = build(ports, Policy()).deliver
    assert deliver is not None
    await outbox(rig, 2, secret=new_secret(bytes(32)))
    rig.write("UPDATE events SET payload = %(broken)s", broken=b"nothing that opens")
    assert await deliver.claim(500) == []
    assert kept("sender_faults_total", reason=SenderFault.NO_KEY.value) == 2


async def test_deliveries_that_end_without_success_are_counted_by_the_reason(rig: PostgresRig) -> None:
    kept = Kept()
    ports = evolve(
        ApplicationHarness().process().ports, clock=rig.clock, store=rig.store, sender=cast(Any, Sender()),
        metrics=kept.metrics(),
    )  # fmt: skip
    deliver = build(ports, Policy(retry_schedule=RetrySchedule(()))).deliver
    assert deliver is not None
    await outbox(rig, 2, secret=new_secret(bytes(32)))
    await deliver.record([await deliver.post(one) for one in await deliver.claim(1)])
    rig.clock.advance(timedelta(days=400).total_seconds())
    await deliver.claim(1)
    for reason in ("attempts", "past_retention"):
        assert kept("deliveries_failed_total", reason=reason) == 1, reason


def test_faults_of_the_sender_and_pairs_of_labels_begin_at_zero() -> None:
    kept = Kept()
    kept.metrics()
    shown = generate_latest(kept.registry).decode()
    assert 'meetcore_store_unavailable_total{kind="disk_full",pool="primary"} 0.0\n' in shown
    assert 'meetcore_provider_calls_total{call="create",result="refused"} 0.0\n' in shown
    for fault in SenderFault:
        assert f'meetcore_sender_faults_total{{reason="{fault.value}"}} 0.0\n' in shown


def test_refusals_for_want_of_a_host_begin_at_zero_for_each_capacity() -> None:
    kept = Kept()
    build(evolve(ApplicationHarness().process().ports, metrics=kept.metrics()), Policy())
    assert kept("no_host_total", capacity="1000") == 0


def test_attempts_have_few_results() -> None:
    assert result_of(evolve(BAD, status_code=503)) == "5xx"
    assert result_of(evolve(BAD, status_code=None, error="timeout")) == "timeout"
    assert result_of(evolve(BAD, status_code=200, error=None)) == "2xx"


def test_a_2xx_whose_body_did_not_end_in_time_is_not_counted_as_one() -> None:
    assert result_of(evolve(BAD, status_code=200, error="timeout")) == "timeout"


def test_totals_of_the_pool_are_counted_once() -> None:
    kept = Kept()
    metrics = kept.metrics()
    first = report_pool(metrics, "primary", PoolState(4, 1, 2, 10, 1.5), PoolState())
    report_pool(metrics, "lists", PoolState(2, 0, 1, 5, 0.5), PoolState())
    second = report_pool(metrics, "primary", PoolState(3, 3, 0, 12, 1.75), first)
    names = ("connections", "idle_connections", "waiting", "waits_total", "wait_seconds_total")
    assert [kept(f"pool_{name}", pool="primary") for name in names] == [3, 3, 0, 12, 1.75]
    assert [kept(f"pool_{name}", pool="lists") for name in names] == [2, 0, 1, 5, 0.5]
    report_pool(metrics, "primary", PoolState(1, 1, 0, 0, 0.0), second)  # opened anew
    assert [kept(f"pool_{name}", pool="primary") for name in names] == [1, 1, 0, 12, 1.75]


@pytest.mark.parametrize("metrics", [PrometheusMetrics(), NO_METRICS])
def test_every_metric_is_taken_as_often_as_it_comes(metrics: Metrics) -> None:
    for metric in PROCESS_METRICS * 2:
        metrics.count(metric, *metric.labels) if metric.kind == "counter" else metrics.observe(
            metric, 0.5, *metric.labels
        )


def test_figures_are_shown_while_they_are_there(tmp_path: Path) -> None:
    figures = Figures(
        deliveries_oldest_due_s=7.5, deliveries={"pending": 3}, hosts={"free": 2},
        notes_oldest_due_s={"write": 4}, notes_oldest_failing_s={"write": 5}, notes_oldest_s={"write": 6},
        retention_rounds_s={"meetings": 60.0}, schema_version=38, credits_today={"topup": 70},
        standbys_streaming=0, replication_lag_bytes=1e9, is_archiving_failing=True,
        payments_in_doubt={"reversed": 2},
    )  # fmt: skip
    seen = samples_of(Exposition(tmp_path, lambda: figures, "1.2").render().decode())
    assert value(seen, "meetcore_deliveries_oldest_due_seconds") == 7.5
    assert value(seen, "meetcore_deliveries", state="pending") == 3
    assert value(seen, "meetcore_notes_oldest_due_seconds", step="write") == 4
    assert value(seen, "meetcore_notes_oldest_failing_seconds", step="write") == 5
    assert value(seen, "meetcore_ledger_credits_today", kind="topup") == 70
    assert value(seen, "meetcore_payments_in_doubt", doubt="reversed") == 2
    assert value(seen, "meetcore_replication_lag_bytes") == 1e9
    assert value(seen, "meetcore_retention_round_seconds", records="meetings") == 60
    assert value(seen, "meetcore_build_info", version="1.2") == 1
    names = {name for name, _ in seen}
    assert {metric.name for metric in FIGURES.values()} - names == {"meetcore_endpoints"}
    unseen = samples_of(Exposition(tmp_path, Figures, "1.2").render().decode())
    unknown = {
        "meetcore_standbys_streaming", "meetcore_replication_lag_bytes", "meetcore_wal_archiving_failing",
    }  # fmt: skip
    assert unknown & {name for name, _ in unseen} == set()
    nothing = samples_of(Exposition(tmp_path, lambda: None, "1.2").render().decode())
    assert {name for name, _ in nothing} == {"meetcore_build_info", "meetcore_store_figures_up"}
    assert value(nothing, "meetcore_store_figures_up") == 0


def test_figures_that_the_service_may_not_see_are_left_out(tmp_path: Path) -> None:
    def shown(figures: Figures) -> set[str]:
        return {name for name, _ in samples_of(Exposition(tmp_path, lambda: figures, "1").render().decode())}

    hidden = shown(Figures()) - shown(Figures(oldest_transaction_s=None, replication_lag_s=None))
    assert hidden == {"meetcore_oldest_transaction_seconds", "meetcore_replication_lag_seconds"}


def test_processes_that_ended_leave_their_counts_and_only_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "_is_kept", lambda file, pid: pid == 1)
    for pid in range(1, ENDED_KEPT + 12):
        for kind in ("counter", "gauge_livesum"):
            (tmp_path / f"{kind}_{pid}.db").touch()
    forget_ended(tmp_path)
    assert [file.name for file in tmp_path.glob("gauge_*")] == ["gauge_livesum_1.db"]
    assert len(list(tmp_path.glob("counter_*"))) == ENDED_KEPT + 1


def test_a_process_that_has_just_opened_its_file_is_left_out(tmp_path: Path) -> None:
    with (tmp_path / f"counter_{os.getpid()}.db").open("wb"):
        seen = samples_of(Exposition(tmp_path, lambda: None, "1").render().decode())
    assert {name for name, _ in seen} == {"meetcore_build_info", "meetcore_store_figures_up"}


def test_a_process_with_the_number_of_one_that_ended_keeps_no_gauges(tmp_path: Path) -> None:
    gauges = tmp_path / f"gauge_livesum_{os.getpid()}.db"
    gauges.touch()
    with gauges.open("ab"):
        forget_ended(tmp_path)
        assert gauges.exists()
    forget_ended(tmp_path)
    assert not gauges.exists()


def test_names_follow_the_conventions() -> None:
    names = [metric.name for metric in (*PROCESS_METRICS, BUILD, UP, *FIGURES.values())]
    assert all(name.startswith("meetcore_") for name in names)
    assert len(set(names)) == len(names) == 55
