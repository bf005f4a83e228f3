"""Asks a person before a tool call spends credits, where the agent's program can put a question to one.

Since revision 2026-07-28 a call may be answered by a question (`input_required`): the client asks, and sends
the call again with the answer. The server keeps nothing in between. A question of an earlier revision would
need a session; its clients call as if they could not ask.
"""

from typing import Any, Final

from attrs import frozen
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)
from mcp_types.version import is_version_at_least

from meetcore.adapters.api import bodies
from meetcore.adapters.api.operation import OperationRequest, UseCases
from meetcore.domain.errors import DomainError
from meetcore.domain.fields import record_of
from meetcore.domain.ids import parse_id
from meetcore.domain.meetings.meetings import MeetingRequest
from meetcore.domain.money import holds
from meetcore.domain.money.pricing import started_minutes
from meetcore.domain.notes.recordings import RecordingStatus, shown_status
from meetcore.domain.texts import count_of

_ANSWERED_BY_QUESTION: Final = "2026-07-28"
_NO_FIELDS: Final[dict[str, Any]] = {"type": "object", "properties": {}}


@frozen
class Spending:
    """What a call would spend in credits, as a question."""

    credits: int
    question: str


async def ask(
    call: Any, params: CallToolRequestParams, use: UseCases, request: OperationRequest, meta: dict[str, Any]
) -> InputRequiredResult | CallToolResult | None:
    """Return a question or, where it was declined, a result in place of the tool's; else `None`.

    `call` is the context of the protocol's package. The name of a question has the price, so that a consent
    counts for no other.
    """
    if not is_version_at_least(call.protocol_version, _ANSWERED_BY_QUESTION) or not can_ask(call):
        return None
    spending = await _find_spending(use, request)
    if spending is None:
        return None
    name = f"spend_{spending.credits}_credits"
    answer = (params.input_responses or {}).get(name)
    if not isinstance(answer, ElicitResult):
        form = ElicitRequestFormParams(message=spending.question, requested_schema=_NO_FIELDS)
        return InputRequiredResult(input_requests={name: ElicitRequest(params=form)}, _meta=meta)
    if answer.action == "accept":
        return None
    spent = count_of(spending.credits, "credit")
    text = f"The person did not agree to spend {spent}. Nothing was done or charged."
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True, _meta=meta)


def can_ask(call: Any) -> bool:
    """Return whether the client takes a form, which `elicitation: {}` says as well."""
    capabilities: ClientCapabilities | None = call.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def _find_spending(use: UseCases, request: OperationRequest) -> Spending | None:
    """Return what a call would spend now; `None` for one that is refused, is a retry, or costs nothing.

    The caller was read with its state, which there is not where the idempotency key is known.
    """
    state = request.caller.state
    try:
        spending = None if state is None else await _priced(use, request)
    except DomainError:
        return None
    if state is None or spending is None or not spending.credits:
        return None
    available = state.funds.balance - state.funds.held
    is_enough = holds.is_sufficient(available, state.usage.used, state.daily_cap, spending.credits)
    return spending if is_enough else None


async def _priced(use: UseCases, request: OperationRequest) -> Spending | None:
    match request.body:
        case bodies.CreateMeetingBody() as body:
            options = record_of(MeetingRequest, body).options
            credits = use.estimate.meeting(body.pricing_tier_id, options).credits
            later = " Its notes are charged when they are written." if options.auto_notulen else ""
            price = count_of(credits, "credit")
            what = f"Book “{body.title}” on {body.date} at {body.start_time} WIB for {price}?{later}"
        case bodies.CreateNoteBody() as body:
            recording_id = parse_id(body.recording_id, "recording")
            recording = await use.queries.find_recording(request.account_id, recording_id)
            if recording is None or shown_status(recording, request.now) is not RecordingStatus.AVAILABLE:
                return None
            minutes = started_minutes(recording.duration_s)
            credits = use.estimate.notulen(minutes).credits
            length, price = count_of(minutes, "minute"), count_of(credits, "credit")
            what = f"Have notes written of a recording of {length} for {price}?"
        case _:
            return None
    return Spending(credits, what)
