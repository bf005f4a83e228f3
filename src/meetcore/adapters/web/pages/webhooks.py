"""Webhooks: endpoints with their health, their secret, and deliveries with every attempt."""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from attrs import evolve
from starlette.responses import Response

from meetcore.adapters.api.examples import payload as example_payload
from meetcore.adapters.web import forms
from meetcore.adapters.web.texts import (
    DELIVERY_STATES,
    ENDPOINT_STATES,
    ERROR_TEXTS,
    EVENT_TEXTS,
    STATUS_ERROR,
)
from meetcore.adapters.web.visit import Page, Question, Visit, see_other
from meetcore.domain.errors import DomainError, refusal_of
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import Action
from meetcore.domain.webhooks import deliveries, endpoints, events, urls, views
from meetcore.usecases.members.dashboard import SentForm
from meetcore.usecases.requests.idempotency import Outcome

ROOT: Final = "/dashboard/webhooks"
_KIND: Final = "kind:"
_FILTERS: Final = ("status", "kind", "day", "about")
_NO_ID: Final = UUID(int=0)
_HELD_HOURS: Final = deliveries.HELD_FOR // timedelta(hours=1)
_SOON: Final = timedelta(seconds=40)
"""A delivery in flight is due when its lease ends, after thirty seconds."""
_HIDDEN: Final = frozenset({"join_url", "password", "host_key"})
"""Fields of a payload that an operator's view hides."""

Change = Callable[[SentForm], Awaitable[Outcome]]


@Page("GET", ROOT, Action.VIEW_WEBHOOKS)
async def list_webhooks(visit: Visit) -> Response:
    """List every endpoint with the health of its deliveries."""
    found = await visit.use.webhooks.list_endpoints(visit.signed_in, visit.now)
    return visit.page(
        "webhooks.html",
        endpoints=[(one, visit.mark(ENDPOINT_STATES[one.endpoint.state])) for one in found],
        sample=views.HEALTH_SAMPLE,
    )


@Page("GET", f"{ROOT}/events", Action.VIEW_WEBHOOKS)
async def show_events(visit: Visit) -> Response:
    """Show the kinds of events, each with an example payload."""
    return visit.page(
        "events.html",
        kinds=[
            (kind.value, visit.text(text), _indented(example_payload(kind)))
            for kind, text in EVENT_TEXTS.items()
        ],
    )


@Page("GET", f"{ROOT}/new", Action.MANAGE_WEBHOOKS, needs_fresh=True)
async def ask_for_webhook(visit: Visit) -> Response:
    return _form(visit, visit.form or {f"{_KIND}{kind}": "on" for kind in EVENT_TEXTS}, {})


@Page("POST", ROOT, Action.MANAGE_WEBHOOKS, needs_fresh=True)
async def register_webhook(visit: Visit) -> Response:
    form = visit.form
    kinds, description = _read_kinds(visit), form.get("description", "").strip() or None
    url = form.get("url", "").strip()
    if errors := forms.explain_all(
        visit.look, [refusal_of(lambda: urls.parse_webhook_url(url)), _refusal_of_fields(kinds, description)]
    ):
        return _form(visit, form, errors)
    use, who = visit.use.webhooks, visit.signed_in
    record, errors, again = await forms.apply_again(
        visit, lambda sent: use.register(who, url, kinds, description, sent)
    )
    if errors:
        return _form(visit, again, errors)
    return see_other(f"{ROOT}/{record['id']}?done=webhook_registered")


def _read_kinds(visit: Visit) -> tuple[events.EventKind, ...]:
    return tuple(kind for kind in events.EventKind if f"{_KIND}{kind}" in visit.form)


def _refusal_of_fields(kinds: tuple[events.EventKind, ...], description: str | None) -> DomainError | None:
    return refusal_of(lambda: endpoints.check_fields(kinds, description))


@Page("GET", f"{ROOT}/{{id}}", Action.VIEW_WEBHOOKS)
async def show_webhook(visit: Visit) -> Response:
    return await _show(visit)


@Page("POST", f"{ROOT}/{{id}}/secret", Action.MANAGE_WEBHOOK_SECRETS, needs_fresh=True)
async def show_secret(visit: Visit) -> Response:
    use, who = visit.use.webhooks, visit.signed_in
    secret = await use.show_secret(who, visit.path_id("webhook"), visit.client_address, visit.now)
    return await _show(visit, secret=secret)


async def _find(visit: Visit) -> endpoints.Endpoint:
    health = await visit.use.webhooks.find_endpoint(visit.signed_in, visit.path_id("webhook"), visit.now)
    return health.endpoint


async def _ask_to_rotate(visit: Visit) -> Question:
    return Question(
        visit.text("Rotate the signing secret?"),
        visit.text(
            "Deliveries to %(url)s are signed with a new secret from now on. For %(hours)s hours the old "
            "one signs beside it in webhook-signature, but not in X-Service-Signature: a receiver that "
            "checks that header refuses deliveries until it has the new secret.",
            url=(await _find(visit)).url,
            hours=endpoints.MAX_OVERLAP_HOURS,
        ),
        visit.text("Rotate the secret"),
    )


async def _ask_to_remove(visit: Visit) -> Question:
    return Question(
        visit.text("Remove the webhook?"),
        visit.text(
            "%(url)s gets no more events. Its pending deliveries are not sent, and the earlier ones and "
            "the secret are gone from these pages. This cannot be undone. To stop deliveries for a "
            "while, pause it.",
            url=(await _find(visit)).url,
        ),
        visit.text("Remove the webhook"),
    )


@Page("POST", f"{ROOT}/{{id}}/rotate", Action.MANAGE_WEBHOOK_SECRETS, needs_fresh=True, ask=_ask_to_rotate)
async def rotate_secret(visit: Visit) -> Response:
    """Replace the secret and show the new one."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    record, errors = await forms.apply(visit, lambda form: use.rotate_secret(who, endpoint_id, form))
    return await _show(visit, errors, secret=record.get("secret"))


@Page("GET", f"{ROOT}/{{id}}/edit", Action.MANAGE_WEBHOOKS)
async def ask_for_changes(visit: Visit) -> Response:
    endpoint = await _find(visit)
    values = {f"{_KIND}{kind.value}": "on" for kind in endpoint.event_types}
    return _edit_form(visit, endpoint, values | {"description": endpoint.description or ""}, {})


@Page("POST", f"{ROOT}/{{id}}/edit", Action.MANAGE_WEBHOOKS)
async def edit_webhook(visit: Visit) -> Response:
    """Change the events and the description of an endpoint."""
    kinds, description = _read_kinds(visit), visit.form.get("description", "").strip() or None
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    errors = forms.explain_all(visit.look, [_refusal_of_fields(kinds, description)])
    if not errors:
        changes = endpoints.EndpointChanges(event_types=kinds, description=description)
        _record, errors = await forms.apply(visit, lambda form: use.change(who, endpoint_id, changes, form))
    if errors:
        return _edit_form(visit, await _find(visit), visit.form, errors)
    return see_other(f"{ROOT}/{endpoint_id}?done=webhook_changed")


@Page("POST", f"{ROOT}/{{id}}/change", Action.MANAGE_WEBHOOKS)
async def change_webhook(visit: Visit) -> Response:
    """Pause or resume an endpoint; a resumed one may be resent what failed since a time."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    changes = endpoints.EndpointChanges(is_active=visit.form.get("is_active") == "yes")
    recovers = changes.is_active is True and bool(visit.form.get("since"))
    since = _since(visit) if recovers else None
    if recovers and since is None:
        return await _show(visit, _no_time(visit))
    _record, errors = await forms.apply(visit, lambda form: use.change(who, endpoint_id, changes, form))
    if errors:
        return await _show(visit, errors)
    if since is not None:
        return await _recover(visit, since, "-recover")
    return see_other(f"{ROOT}/{endpoint_id}?done=webhook_changed")


@Page("POST", f"{ROOT}/{{id}}/remove", Action.MANAGE_WEBHOOKS, ask=_ask_to_remove)
async def remove_webhook(visit: Visit) -> Response:
    """Remove an endpoint and its pending deliveries."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    _record, errors = await forms.apply(visit, lambda form: use.remove(who, endpoint_id, form))
    return await _show(visit, errors) if errors else see_other(f"{ROOT}?done=webhook_removed")


@Page("POST", f"{ROOT}/{{id}}/test", Action.MANAGE_WEBHOOKS)
async def send_test(visit: Visit) -> Response:
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    return await _changed(visit, lambda form: use.send_test(who, endpoint_id, form), "test_sent")


@Page("POST", f"{ROOT}/{{id}}/recover", Action.MANAGE_WEBHOOKS)
async def recover_deliveries(visit: Visit) -> Response:
    """Resend failed deliveries since a time in WIB, and show their number."""
    since = _since(visit)
    return await (_show(visit, _no_time(visit)) if since is None else _recover(visit, since))


def _since(visit: Visit) -> datetime | None:
    try:
        since = datetime.fromisoformat(visit.form.get("since", "")).replace(tzinfo=WIB)
        since.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return since


def _no_time(visit: Visit) -> Mapping[str, str]:
    return {"since": visit.text("Write a day and a time.")}


async def _recover(visit: Visit, since: datetime, part: str = "") -> Response:
    """Recover deliveries, as one `part` of what the form changes, and show their number."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    record, errors = await forms.apply(
        visit, lambda form: use.recover(who, endpoint_id, since, evolve(form, key=form.key + part))
    )
    if errors:
        return await _show(visit, errors)
    notice = visit.text("Deliveries that are sent again: %(count)s.", count=record["deliveries"])
    if record["has_more"]:
        notice += " " + visit.text("There may be more: send the form again.")
    return await _show(visit, notice=notice)


@Page("POST", f"{ROOT}/{{id}}/deliveries/{{delivery_id}}/resend", Action.MANAGE_WEBHOOKS)
async def resend_delivery(visit: Visit) -> Response:
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    delivery_id = visit.path_id("delivery", "delivery_id")
    return await _changed(
        visit, lambda form: use.resend(who, endpoint_id, delivery_id, form), "delivery_resent"
    )


@Page("GET", f"{ROOT}/{{id}}/deliveries/{{delivery_id}}", Action.VIEW_WEBHOOKS)
async def show_delivery(visit: Visit) -> Response:
    """Show a delivery with its attempts and responses."""
    delivery_id = visit.path_id("delivery", "delivery_id")
    found = await visit.use.webhooks.find_delivery(visit.signed_in, visit.path_id("webhook"), delivery_id)
    event = await visit.use.webhooks.find_event(visit.signed_in, found.delivery.event_id, visit.now)
    return visit.page(
        "delivery.html",
        payload="" if event is None or event.payload is None else _payload(visit, event.payload),
        endpoint_id=visit.path_id("webhook"),
        delivery=found.delivery,
        attempts=[(each, _explain_error(visit, each.error)) for each in reversed(found.attempts)],
        is_live=_is_live(found, visit.now),
        held_hours=_HELD_HOURS,
        state=visit.mark(DELIVERY_STATES[found.delivery.status]),
        form_key=visit.new_form_key(),
    )


def _explain_error(visit: Visit, error: str | None) -> str:
    """Say what the error of an attempt means; empty for none, and for one of a release to come."""
    if error is None:
        return ""
    return visit.text(STATUS_ERROR if error.startswith("status_") else ERROR_TEXTS.get(error, ""))


def _is_live(found: views.DeliveryHistory, now: datetime) -> bool:
    """Return whether a delivery is tried within moments: its page renews itself."""
    at = found.delivery.next_attempt_at
    return at is not None and at - now < _SOON


def _payload(visit: Visit, text: bytes) -> str:
    """Format a payload; in a view without links and passwords of a meeting."""
    payload = json.loads(text)
    data = payload.get("data")
    if visit.is_view and isinstance(data, dict):
        hidden = visit.text("(hidden)")
        payload["data"] = {name: hidden if name in _HIDDEN and data[name] else data[name] for name in data}
    return _indented(payload)


def _indented(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, indent=2)


async def _changed(visit: Visit, change: Change, done: str) -> Response:
    _record, errors = await forms.apply(visit, change)
    if errors:
        return await _show(visit, errors)
    return see_other(f"{ROOT}/{visit.path_id('webhook')}?done={done}")


async def _show(
    visit: Visit,
    errors: Mapping[str, str] | None = None,
    *,
    secret: str | None = None,
    notice: str | None = None,
) -> Response:
    use, days = visit.use.webhooks, forms.read_days(visit, "day", "day")
    who, endpoint_id = visit.signed_in, visit.path_id("webhook")
    health = await use.find_endpoint(who, endpoint_id, visit.now)
    endpoint = health.endpoint
    wanted = views.DeliveryFilter(
        forms.read_choice(visit, "status", deliveries.DeliveryStatus, days.errors),
        forms.read_choice(visit, "kind", events.EventKind, days.errors),
        days.begins_at,
        days.ends_at,
        _about(visit.query("about").strip()),
    )
    found = await use.list_deliveries(who, endpoint_id, wanted, forms.PAGE_SIZE + 1, forms.read_before(visit))
    path = f"{ROOT}/{endpoint.id}"
    shown, older = forms.first_page(visit, found, lambda one: one.delivery.id, *_FILTERS, path=path)
    return visit.form_page(
        "webhook.html",
        errors or days.errors,
        **({"notice": notice} if notice else {}),
        since=visit.form.get("since", "") or _disabled_at(endpoint),
        held_hours=_HELD_HOURS,
        endpoint=endpoint,
        health=health,
        sample=views.HEALTH_SAMPLE,
        secret=secret,
        state=visit.mark(ENDPOINT_STATES[endpoint.state]),
        deliveries=[(one, visit.mark(DELIVERY_STATES[one.delivery.status])) for one in shown],
        statuses=visit.choices((each.value, label) for each, (label, _kind) in DELIVERY_STATES.items()),
        kinds=visit.choices((kind.value, kind.value) for kind in events.EventKind),
        chosen={name: visit.query(name) for name in _FILTERS},
        is_live=any(_is_live(one, visit.now) for one in shown),
        last_error=_explain_error(visit, health.last_error),
        most=views.MAX_DELIVERIES_LOOKED_AT,
        older=older,
        form_key=visit.new_form_key(),
    )


def _disabled_at(endpoint: endpoints.Endpoint) -> str:
    at = endpoint.disabled_at
    return "" if at is None else f"{at.astimezone(WIB):%Y-%m-%dT%H:%M}"


def _about(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return _NO_ID


def _edit_form(
    visit: Visit, endpoint: endpoints.Endpoint, values: Mapping[str, str], errors: Mapping[str, str]
) -> Response:
    return visit.form_page(
        "edit_webhook.html",
        errors,
        endpoint=endpoint,
        description=values.get("description", ""),
        chosen=[name.removeprefix(_KIND) for name in values if name.startswith(_KIND)],
        kinds=[(kind.value, visit.text(text)) for kind, text in EVENT_TEXTS.items()],
        form_key=values.get("form_key") or visit.new_form_key(),
    )


def _form(visit: Visit, values: Mapping[str, str], errors: Mapping[str, str]) -> Response:
    return visit.form_page(
        "new_webhook.html",
        errors,
        values={name: values.get(name, "") for name in ("url", "description")},
        chosen=[name.removeprefix(_KIND) for name in values if name.startswith(_KIND)],
        kinds=[(kind.value, visit.text(text)) for kind, text in EVENT_TEXTS.items()],
        examples=[(kind.value, _indented(example_payload(kind))) for kind in EVENT_TEXTS],
        form_key=values.get("form_key") or visit.new_form_key(),
    )
