"""Endpoints that failures disabled are made active again together, and what was held goes out."""

from datetime import timedelta
from typing import Any, cast

from attrs import evolve

from meetcore.domain.members.audit import SERVICE
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, Endpoint, EndpointState
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks.endpoints import WebhookAdministration
from tests.support.outbox import claim, outbox
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import save_endpoint


class Notifier:
    notified = 0

    def notify(self) -> None:
        self.notified += 1


async def disabled(rig: PostgresRig, deliveries: int, **fields: Any) -> Endpoint:
    _, endpoint = await outbox(rig, deliveries)
    wanted: dict[str, Any] = {
        "state": EndpointState.DISABLED,
        "consecutive_failures": DISABLE_AFTER_FAILURES,
        **fields,
    }
    changed = evolve(endpoint, **wanted)
    await save_endpoint(rig, changed)
    return changed


async def test_those_disabled_since_an_instant_are_active_and_their_deliveries_due(rig: PostgresRig) -> None:
    since = rig.now()
    earlier = await disabled(rig, 1, disabled_at=since - timedelta(seconds=1))
    first = await disabled(rig, 3, disabled_at=since)
    second = await disabled(rig, 0, disabled_at=since + timedelta(seconds=5))
    paused = await disabled(rig, 1, state=EndpointState.PAUSED, consecutive_failures=3, disabled_at=None)
    notifier = Notifier()
    use_case = WebhookAdministration(
        rig.store, cast(Any, notifier), Runtime(rig.clock, SeededEntropy(5)), SERVICE
    )
    assert [one.id for one in await use_case.list_disabled(since)] == [first.id, second.id]
    enabled = await use_case.enable(since)
    assert [(one.id, one.state, one.consecutive_failures, one.disabled_at) for one in enabled] == [
        (first.id, EndpointState.ACTIVE, 0, None), (second.id, EndpointState.ACTIVE, 0, None),
    ]  # fmt: skip
    assert await use_case.enable(since) == []
    assert notifier.notified == 1
    rig.clock.advance(1)
    claimed, _ = await claim(rig)
    assert {one.endpoint_id for one in claimed} == {first.id}
    assert len(claimed) == 3
    states = {row["id"]: row["state"] for row in rig.read("SELECT id, state FROM webhook_endpoints")}
    assert (states[earlier.id], states[paused.id]) == ("disabled", "paused")
    held = rig.read("SELECT 1 FROM deliveries WHERE status = %(status)s", status=DeliveryStatus.HELD.value)
    assert len(held) == 2
    entries = rig.read("SELECT action, target_id, details FROM audit_log ORDER BY id")
    assert [(entry["action"], entry["target_id"]) for entry in entries] == [
        ("webhook.changed", str(first.id)), ("webhook.changed", str(second.id)),
    ]  # fmt: skip
