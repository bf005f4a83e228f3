"""Parse Zoom's webhooks, verified over the raw body.

`x-zm-signature` is `v0=` and the hex HMAC-SHA256 of `v0:{x-zm-request-timestamp}:{raw body}` under the secret
token. A timestamp more than five minutes off is refused as a replay. The signature is verified before
anything is parsed: the reply to Zoom's challenge is an HMAC under the same secret, so an unverified challenge
would sign any text.

Each event names its meeting by number and the session by uuid: a number may be held any number of times. A
meeting id is a string in meeting events and a number in recording events. Unused events are verified and
ignored.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from attrs import evolve, field, frozen
from msgspec import Meta

from meetcore.adapters.zoom.schemas import ListedFile, ready_files
from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.recordings import RecordingFile
from meetcore.ports.video_provider import ProviderWebhook, SignatureInvalid, WebhookMalformed, WebhookParser

PROVIDER: Final = "zoom"
TOLERANCE_S: Final = 300

_VERSION = "v0"
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
# Zoom sends a short random text. With a colon, the HMAC could be reused as a signature.
_PLAIN_TOKEN = re.compile(r"[!-9;-~]{1,256}")
_CHALLENGE = "endpoint.url_validation"
_MEETINGS: Final = {
    "meeting.started": ProviderEventKind.MEETING_STARTED,
    "meeting.ended": ProviderEventKind.MEETING_ENDED,
}
# The transcript is finished after the media: one more file of the recording.
_RECORDINGS: Final = frozenset({"recording.completed", "recording.transcript_completed"})

_Id = Annotated[str, Meta(pattern="^[!-~]{1,64}$")] | Annotated[int, Meta(ge=0)]


@frozen
class _Kind:
    event: str


@frozen
class _Challenge:
    plainToken: str = field(repr=False)  # noqa: N815  (Zoom's own name)


@frozen
class _ChallengeEvent:
    payload: _Challenge


@frozen
class _Meeting:
    id: _Id
    uuid: Annotated[str, Meta(max_length=256)] = ""


@frozen
class _MeetingPayload:
    object: _Meeting


@frozen
class _MeetingEvent:
    payload: _MeetingPayload
    event_ts: int


@frozen
class _Recording:
    id: _Id
    uuid: str = ""
    recording_files: tuple[ListedFile, ...] = ()


@frozen
class _RecordingPayload:
    object: _Recording


@frozen
class _RecordingEvent:
    payload: _RecordingPayload
    event_ts: int


def zoom_webhook_parser(secret: str) -> WebhookParser:
    """Return a parser of requests signed with this secret token, which is not empty."""
    if not secret:
        raise ValueError("the secret token of Zoom's webhook is empty")
    key = secret.encode()

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> ProviderWebhook:
        _verify(key, body, headers, now)
        return _read(key, body)

    return read


def _verify(key: bytes, body: bytes, headers: Mapping[str, str], now: datetime) -> None:
    """Raise `SignatureInvalid` for a wrong or missing signature or time."""
    timestamp = headers.get("x-zm-request-timestamp", "")
    signature = headers.get("x-zm-signature", "")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureInvalid("no timestamp")
    expected = f"{_VERSION}={_mac(key, f'{_VERSION}:{timestamp}:'.encode() + body)}"
    # As bytes: `compare_digest` refuses strings beyond ASCII.
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise SignatureInvalid("the signature is wrong")
    if abs(now.timestamp() - int(timestamp)) > TOLERANCE_S:
        raise SignatureInvalid("the timestamp is too far off")


def _mac(key: bytes, text: bytes) -> str:
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _read(key: bytes, body: bytes) -> ProviderWebhook:
    try:
        kind = msgspec.json.decode(body, type=_Kind).event
        if kind == _CHALLENGE:
            token = msgspec.json.decode(body, type=_ChallengeEvent).payload.plainToken
            return ProviderWebhook(response=_challenge_response(key, token))
        if kind in _MEETINGS:
            return ProviderWebhook(_meeting_event(_MEETINGS[kind], body))
        if kind in _RECORDINGS:
            about = msgspec.json.decode(body, type=_RecordingEvent)
            recording = about.payload.object
            files = ready_files(recording.recording_files, recording.uuid)
            return ProviderWebhook(
                _event(ProviderEventKind.RECORDING_READY, recording.id, about.event_ts, files)
            )
    except (msgspec.DecodeError, ValueError, OverflowError, OSError, RecursionError) as error:
        raise WebhookMalformed("not one of Zoom's events") from error
    return ProviderWebhook()


def _challenge_response(key: bytes, plain_token: str) -> dict[str, str]:
    if not _PLAIN_TOKEN.fullmatch(plain_token):
        raise ValueError("invalid plainToken")
    return {"plainToken": plain_token, "encryptedToken": _mac(key, plain_token.encode())}


def _meeting_event(kind: ProviderEventKind, body: bytes) -> ProviderEvent:
    decoded = msgspec.json.decode(body, type=_MeetingEvent)
    meeting, event = decoded.payload.object, _event(kind, decoded.payload.object.id, decoded.event_ts)
    is_start = kind is ProviderEventKind.MEETING_STARTED
    # The times in the object are those of the plan in some events: the event's own is the actual one.
    session = Session(
        meeting.uuid or str(meeting.id),
        started_at=event.happened_at if is_start else None,
        ended_at=None if is_start else event.happened_at,
    )
    return evolve(event, session=session)


def _event(
    kind: ProviderEventKind, meeting_id: str | int, at_ms: int, files: tuple[RecordingFile, ...] = ()
) -> ProviderEvent:
    happened_at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return ProviderEvent(PROVIDER, kind, str(meeting_id), happened_at, files)
