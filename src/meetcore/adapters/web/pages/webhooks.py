"""Webhooks: endpoints with their health, their secret, and deliveries with every attempt."""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from starlette.responses import Response

from meetcore.adapters.api.example_events import payload as example_payload
from meetcore.adapters.web.filters import PAGE_SIZE, read_before
from meetcore.adapters.web.page import Page
from meetcore.adapters.web.problems import explain
from meetcore.adapters.web.texts import DELIVERY_STATES, ENDPOINT_STATES, EVENT_TEXTS, _
from meetcore.adapters.web.visit import Visit, see_other
from meetcore.domain.errors import DomainError
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import Action
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import EndpointChanges
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.endpoint_health import HEALTH_SAMPLE
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.work_by_hand import SentForm

ROOT: Final = "/dashboard/webhooks"
_KIND: Final = "kind:"
_HIDDEN: Final = frozenset({"join_url", "password", "host_key"})
"""What an operator who looks at an account does not see of a payload."""

Change = Callable[[SentForm], Awaitable[Outcome]]


@Page("GET", ROOT, Action.VIEW_WEBHOOKS)
async def list_webhooks(visit: Visit) -> Response:
    """Every endpoint, and how its deliveries have gone."""
    found = await visit.use.webhooks.list_endpoints(visit.signed_in, visit.now)
    return visit.page(
        "webhooks.html",
        endpoints=[(one, _mark(visit, ENDPOINT_STATES[one.endpoint.state])) for one in found],
        sample=HEALTH_SAMPLE,
    )


@Page("GET", f"{ROOT}/events", Action.VIEW_WEBHOOKS)
async def show_events(visit: Visit) -> Response:
    """The events that an endpoint can subscribe to, each with an example of what is posted."""
    return visit.page(
        "events.html",
        kinds=[
            (kind.value, visit.text(text), _indented(example_payload(kind)))
            for kind, text in EVENT_TEXTS.items()
        ],
    )


@Page("GET", f"{ROOT}/new", Action.MANAGE_WEBHOOKS)
async def ask_for_webhook(visit: Visit) -> Response:
    """The form of a new endpoint."""
    return _form(visit, {f"{_KIND}{kind}": "on" for kind in EVENT_TEXTS}, {})


@Page("POST", ROOT, Action.MANAGE_WEBHOOKS)
async def register_webhook(visit: Visit) -> Response:
    """Register an endpoint and show its secret."""
    form = visit.form
    kinds = [kind for kind in EventKind if f"{_KIND}{kind}" in form]
    if not kinds:
        return _form(visit, form, {"event_types": visit.text(_("Choose at least one."))}, 422)
    url, description = form.get("url", "").strip(), form.get("description", "").strip() or None
    try:
        outcome = await visit.use.webhooks.register(
            visit.signed_in, url, kinds, description, visit.sent_form()
        )
    except DomainError as refusal:
        return _form(visit, form, explain(visit.look, refusal), 422)
    if outcome.refusal is not None:
        return _form(visit, form, explain(visit.look, outcome.refusal), 422)
    assert outcome.record is not None
    return see_other(f"{ROOT}/{outcome.record['id']}?done=webhook_registered")


@Page("GET", f"{ROOT}/{{id}}", Action.VIEW_WEBHOOKS)
async def show_webhook(visit: Visit) -> Response:
    """One endpoint and its deliveries."""
    return await _show(visit)


@Page("POST", f"{ROOT}/{{id}}/secret", Action.MANAGE_WEBHOOK_SECRETS, needs_fresh=True)
async def show_secret(visit: Visit) -> Response:
    """One endpoint with its secret."""
    use, who = visit.use.webhooks, visit.signed_in
    secret = await use.show_secret(who, _id(visit), visit.client_address, visit.now)
    return await _show(visit, secret=secret)


@Page("POST", f"{ROOT}/{{id}}/rotate", Action.MANAGE_WEBHOOK_SECRETS, needs_fresh=True)
async def rotate_secret(visit: Visit) -> Response:
    """Replace the secret, and show the new one."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, _id(visit)
    record, errors = await _apply(visit, lambda form: use.rotate_secret(who, endpoint_id, form))
    return await _show(visit, errors, secret=record.get("secret"))


@Page("POST", f"{ROOT}/{{id}}/change", Action.MANAGE_WEBHOOKS)
async def change_webhook(visit: Visit) -> Response:
    """Pause or resume an endpoint."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, _id(visit)
    changes = EndpointChanges(is_active=visit.form.get("is_active") == "yes")
    return await _changed(visit, lambda form: use.change(who, endpoint_id, changes, form), "webhook_changed")


@Page("POST", f"{ROOT}/{{id}}/remove", Action.MANAGE_WEBHOOKS)
async def remove_webhook(visit: Visit) -> Response:
    """Remove an endpoint and what waits for it."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, _id(visit)
    _record, errors = await _apply(visit, lambda form: use.remove(who, endpoint_id, form))
    return await _show(visit, errors) if errors else see_other(f"{ROOT}?done=webhook_removed")


@Page("POST", f"{ROOT}/{{id}}/test", Action.MANAGE_WEBHOOKS)
async def send_test(visit: Visit) -> Response:
    """Send a test event."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, _id(visit)
    return await _changed(visit, lambda form: use.send_test(who, endpoint_id, form), "test_sent")


@Page("POST", f"{ROOT}/{{id}}/recover", Action.MANAGE_WEBHOOKS)
async def recover_deliveries(visit: Visit) -> Response:
    """Send what failed since a time in WIB again, and say how much that is."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, _id(visit)
    try:
        since = datetime.fromisoformat(visit.form.get("since", "")).replace(tzinfo=WIB)
        since.astimezone(UTC)
    except (ValueError, OverflowError):
        return await _show(visit, {"since": visit.text(_("Write a day and a time."))})
    record, errors = await _apply(visit, lambda form: use.recover(who, endpoint_id, since, form))
    if errors:
        return await _show(visit, errors)
    notice = visit.text(_("Deliveries that are sent again: %(count)s."), count=record["deliveries"])
    if record["has_more"]:
        notice += " " + visit.text(_("There may be more: send the form again."))
    return await _show(visit, notice=notice)


@Page("POST", f"{ROOT}/{{id}}/deliveries/{{delivery_id}}/resend", Action.MANAGE_WEBHOOKS)
async def resend_delivery(visit: Visit) -> Response:
    """Send the event of a delivery again."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, _id(visit)
    delivery_id = parse_id(visit.request.path_params["delivery_id"], "delivery")
    return await _changed(
        visit, lambda form: use.resend(who, endpoint_id, delivery_id, form), "delivery_resent"
    )


@Page("GET", f"{ROOT}/{{id}}/deliveries/{{delivery_id}}", Action.VIEW_WEBHOOKS)
async def show_delivery(visit: Visit) -> Response:
    """One delivery with its attempts and the answers to them."""
    delivery_id = parse_id(visit.request.path_params["delivery_id"], "delivery")
    found = await visit.use.webhooks.find_delivery(visit.signed_in, _id(visit), delivery_id)
    event = await visit.use.webhooks.find_event(visit.signed_in, found.delivery.event_id, visit.now)
    return visit.page(
        "delivery.html",
        payload="" if event is None or event.payload is None else _payload(visit, event.payload),
        endpoint_id=_id(visit),
        delivery=found.delivery,
        attempts=found.attempts,
        state=_mark(visit, DELIVERY_STATES[found.delivery.status]),
        form_key=visit.new_form_key(),
    )


def _payload(visit: Visit, text: bytes) -> str:
    """A payload to read; in a view without what opens a meeting."""
    payload = json.loads(text)
    data = payload.get("data")
    if visit.is_view and isinstance(data, dict):
        hidden = visit.text(_("(hidden)"))
        payload["data"] = {name: hidden if name in _HIDDEN and data[name] else data[name] for name in data}
    return _indented(payload)


def _indented(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, indent=2)


async def _changed(visit: Visit, change: Change, done: str) -> Response:
    _record, errors = await _apply(visit, change)
    return await _show(visit, errors) if errors else see_other(f"{ROOT}/{_id(visit)}?done={done}")


async def _apply(visit: Visit, change: Change) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Carry out a change; return its record, and why it was refused, if it was."""
    try:
        outcome = await change(visit.sent_form())
    except DomainError as refusal:
        return {}, explain(visit.look, refusal)
    return outcome.record or {}, {} if outcome.refusal is None else explain(visit.look, outcome.refusal)


async def _show(
    visit: Visit,
    errors: Mapping[str, str] | None = None,
    *,
    secret: str | None = None,
    notice: str | None = None,
) -> Response:
    use, text = visit.use.webhooks, visit.query("status")
    who, endpoint_id = visit.signed_in, _id(visit)
    health = await use.find_endpoint(who, endpoint_id, visit.now)
    endpoint = health.endpoint
    status = DeliveryStatus(text) if text in set(DeliveryStatus) else None
    found = await use.list_deliveries(who, endpoint_id, status, PAGE_SIZE + 1, read_before(visit))
    shown = found[:PAGE_SIZE]
    last = shown[-1].delivery.id if len(found) > PAGE_SIZE else None
    return visit.page(
        "webhook.html",
        422 if errors else 200,
        errors=errors or {},
        **({"notice": notice} if notice else {}),
        since=visit.form.get("since", ""),
        endpoint=endpoint,
        health=health,
        sample=HEALTH_SAMPLE,
        secret=secret,
        state=_mark(visit, ENDPOINT_STATES[endpoint.state]),
        deliveries=[(one, _mark(visit, DELIVERY_STATES[one.delivery.status])) for one in shown],
        statuses=[
            ("", visit.text(_("all"))),
            *((each.value, visit.text(label)) for each, (label, _kind) in DELIVERY_STATES.items()),
        ],
        chosen=text,
        older=f"{ROOT}/{endpoint.id}?" + urlencode({"status": text, "before": str(last)}) if last else "",
        form_key=visit.new_form_key(),
    )


def _form(visit: Visit, values: Mapping[str, str], errors: Mapping[str, str], status: int = 200) -> Response:
    return visit.page(
        "new_webhook.html",
        status,
        values={name: values.get(name, "") for name in ("url", "description")},
        chosen=[name.removeprefix(_KIND) for name in values if name.startswith(_KIND)],
        errors=errors,
        kinds=[(kind.value, visit.text(text)) for kind, text in EVENT_TEXTS.items()],
        examples=[(kind.value, _indented(example_payload(kind))) for kind in EVENT_TEXTS],
        form_key=values.get("form_key") or visit.new_form_key(),
    )


def _mark(visit: Visit, mark: tuple[str, str]) -> tuple[str, str]:
    return visit.text(mark[0]), mark[1]


def _id(visit: Visit) -> UUID:
    return parse_id(visit.request.path_params["id"], "webhook")
