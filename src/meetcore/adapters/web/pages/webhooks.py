"""Webhooks: endpoints with their health, their secret, and deliveries with every attempt."""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from meetcore.adapters.api.examples import payload as example_payload
from meetcore.adapters.web.forms import PAGE_SIZE, apply, explain_all, read_before
from meetcore.adapters.web.texts import DELIVERY_STATES, ENDPOINT_STATES, EVENT_TEXTS, _
from meetcore.adapters.web.visit import Page, Question, Visit, see_other
from meetcore.domain.errors import DomainError, refusal_of
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.members.roles import Action
from meetcore.domain.webhooks import deliveries, endpoints, events, urls, views
from meetcore.usecases.members.dashboard import SentForm
from meetcore.usecases.requests.idempotency import Outcome

ROOT: Final = "/dashboard/webhooks"
_KIND: Final = "kind:"
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
    if errors := explain_all(
        visit.look,
        [refusal_of(lambda: urls.parse_webhook_url(url)), _refusal_of_fields(kinds, description)],
    ):
        return _form(visit, form, errors)
    use, who = visit.use.webhooks, visit.signed_in
    record, errors = await apply(visit, lambda sent: use.register(who, url, kinds, description, sent))
    if errors:
        return _form(visit, form, errors)
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


async def _url_of(visit: Visit) -> str:
    health = await visit.use.webhooks.find_endpoint(visit.signed_in, visit.path_id("webhook"), visit.now)
    return health.endpoint.url


async def _ask_to_rotate(visit: Visit) -> Question:
    return Question(
        visit.text(_("Rotate the signing secret?")),
        visit.text(
            _(
                "Deliveries to %(url)s are signed with a new secret from now on. For %(hours)s hours the old "
                "one signs beside it in webhook-signature, but not in X-Service-Signature: a receiver that "
                "checks that header refuses deliveries until it has the new secret."
            ),
            url=await _url_of(visit),
            hours=endpoints.MAX_OVERLAP_HOURS,
        ),
        visit.text(_("Rotate the secret")),
    )


async def _ask_to_remove(visit: Visit) -> Question:
    return Question(
        visit.text(_("Remove the webhook?")),
        visit.text(
            _(
                "%(url)s gets no more events. Its pending deliveries are not sent, and the earlier ones and "
                "the secret are gone from these pages. This cannot be undone. To stop deliveries for a "
                "while, pause it."
            ),
            url=await _url_of(visit),
        ),
        visit.text(_("Remove the webhook")),
    )


@Page("POST", f"{ROOT}/{{id}}/rotate", Action.MANAGE_WEBHOOK_SECRETS, needs_fresh=True, ask=_ask_to_rotate)
async def rotate_secret(visit: Visit) -> Response:
    """Replace the secret and show the new one."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    record, errors = await apply(visit, lambda form: use.rotate_secret(who, endpoint_id, form))
    return await _show(visit, errors, secret=record.get("secret"))


@Page("POST", f"{ROOT}/{{id}}/change", Action.MANAGE_WEBHOOKS)
async def change_webhook(visit: Visit) -> Response:
    """Pause or resume an endpoint."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    changes = endpoints.EndpointChanges(is_active=visit.form.get("is_active") == "yes")
    return await _changed(visit, lambda form: use.change(who, endpoint_id, changes, form), "webhook_changed")


@Page("POST", f"{ROOT}/{{id}}/remove", Action.MANAGE_WEBHOOKS, ask=_ask_to_remove)
async def remove_webhook(visit: Visit) -> Response:
    """Remove an endpoint and its pending deliveries."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    _record, errors = await apply(visit, lambda form: use.remove(who, endpoint_id, form))
    return await _show(visit, errors) if errors else see_other(f"{ROOT}?done=webhook_removed")


@Page("POST", f"{ROOT}/{{id}}/test", Action.MANAGE_WEBHOOKS)
async def send_test(visit: Visit) -> Response:
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    return await _changed(visit, lambda form: use.send_test(who, endpoint_id, form), "test_sent")


@Page("POST", f"{ROOT}/{{id}}/recover", Action.MANAGE_WEBHOOKS)
async def recover_deliveries(visit: Visit) -> Response:
    """Resend failed deliveries since a time in WIB, and show their number."""
    use, who, endpoint_id = visit.use.webhooks, visit.signed_in, visit.path_id("webhook")
    try:
        since = datetime.fromisoformat(visit.form.get("since", "")).replace(tzinfo=WIB)
        since.astimezone(UTC)
    except (ValueError, OverflowError):
        return await _show(visit, {"since": visit.text(_("Write a day and a time."))})
    record, errors = await apply(visit, lambda form: use.recover(who, endpoint_id, since, form))
    if errors:
        return await _show(visit, errors)
    notice = visit.text(_("Deliveries that are sent again: %(count)s."), count=record["deliveries"])
    if record["has_more"]:
        notice += " " + visit.text(_("There may be more: send the form again."))
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
        attempts=found.attempts,
        state=visit.mark(DELIVERY_STATES[found.delivery.status]),
        form_key=visit.new_form_key(),
    )


def _payload(visit: Visit, text: bytes) -> str:
    """Format a payload; in a view without links and passwords of a meeting."""
    payload = json.loads(text)
    data = payload.get("data")
    if visit.is_view and isinstance(data, dict):
        hidden = visit.text(_("(hidden)"))
        payload["data"] = {name: hidden if name in _HIDDEN and data[name] else data[name] for name in data}
    return _indented(payload)


def _indented(payload: Mapping[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, indent=2)


async def _changed(visit: Visit, change: Change, done: str) -> Response:
    _record, errors = await apply(visit, change)
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
    use, text = visit.use.webhooks, visit.query("status")
    who, endpoint_id = visit.signed_in, visit.path_id("webhook")
    health = await use.find_endpoint(who, endpoint_id, visit.now)
    endpoint = health.endpoint
    status = deliveries.DeliveryStatus(text) if text in set(deliveries.DeliveryStatus) else None
    found = await use.list_deliveries(who, endpoint_id, status, PAGE_SIZE + 1, read_before(visit))
    shown = found[:PAGE_SIZE]
    last = shown[-1].delivery.id if len(found) > PAGE_SIZE else None
    return visit.form_page(
        "webhook.html",
        errors or {},
        **({"notice": notice} if notice else {}),
        since=visit.form.get("since", ""),
        endpoint=endpoint,
        health=health,
        sample=views.HEALTH_SAMPLE,
        secret=secret,
        state=visit.mark(ENDPOINT_STATES[endpoint.state]),
        deliveries=[(one, visit.mark(DELIVERY_STATES[one.delivery.status])) for one in shown],
        statuses=visit.choices((each.value, label) for each, (label, _kind) in DELIVERY_STATES.items()),
        chosen=text,
        older=f"{ROOT}/{endpoint.id}?" + urlencode({"status": text, "before": str(last)}) if last else "",
        form_key=visit.new_form_key(),
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
