"""The request bodies: one class for each, the single source of decoding, of all errors, and of the schema.

Lengths are code points (spec part 8). A field that may be absent is UNSET, so that `null` is a value
only where its type says so.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from attrs import field, frozen
from msgspec import UNSET, Meta, UnsetType

from meetcore.domain.money.pricing import MAX_DURATION
from meetcore.domain.notes.notes import Language
from meetcore.domain.webhooks.endpoints import MAX_DESCRIPTION_LENGTH
from meetcore.domain.webhooks.events import EventKind

__all__ = [
    "CreateMeetingBody",
    "CreateNoteBody",
    "EstimateBody",
    "MeetingEstimateBody",
    "NoBody",
    "NotulenEstimateBody",
    "OneOfBody",
    "RegisterWebhookBody",
    "UpdateWebhookBody",
]


@frozen
class OneOfBody:
    """Bodies of which a request has one: the field `tag` says which, by its value."""

    name: str
    tag: str
    bodies: Mapping[str, type]


# The decoder has words of its own for these: they are for the schema.
_ONE_LINE = {"pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$"}
_LINES = {"pattern": r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]*$"}

EndpointDescription = Annotated[
    str,
    Meta(
        max_length=MAX_DESCRIPTION_LENGTH,
        description="For people; shown in lists.",
        extra_json_schema=_LINES,
    ),
]
EventTypes = Annotated[
    list[EventKind],
    Meta(
        min_length=1,
        description="The kinds to be told of; none twice.",
        extra_json_schema={"uniqueItems": True},
    ),
]


TierId = Annotated[
    str,
    Meta(
        min_length=1,
        description="A value from GET /pricing-tiers.",
        examples=["standard-100"],
        extra_json_schema=_ONE_LINE,
    ),
]
WithRecording = Annotated[
    bool, Meta(description="Record the meeting; auto_notulen forces it on. False when absent.")
]
AutoNotulen = Annotated[bool, Meta(description="Write notes when the recording is ready. False when absent.")]
MustLogin = Annotated[
    bool, Meta(description="Only those who log in at the provider may join. False when absent.")
]
MicOff = Annotated[bool, Meta(description="Participants join with the microphone off. False when absent.")]
EmailNotification = Annotated[bool, Meta(description="The provider mails the host. False when absent.")]


@frozen(kw_only=True)
class CreateMeetingBody:
    """What `POST /meetings` takes (spec 4.1)."""

    title: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="What the meeting is called.",
            extra_json_schema=_ONE_LINE,
        ),
    ]
    date: Annotated[
        str,
        Meta(
            pattern="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$",
            description="YYYY-MM-DD, read in WIB (UTC+7).",
            extra_json_schema={"format": "date"},
        ),
    ]
    start_time: Annotated[
        str,
        Meta(
            pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$",
            description="HH:mm, read in WIB (UTC+7).",
            examples=["09:00"],
        ),
    ]
    pricing_tier_id: TierId
    description: (
        Annotated[str, Meta(max_length=1000, description="Lines of text.", extra_json_schema=_LINES)]
        | UnsetType
    ) = UNSET
    password: (
        Annotated[
            str,
            Meta(
                min_length=4,
                max_length=10,
                description="Generated when absent. A refusal names the characters that the provider takes.",
                extra_json_schema=_ONE_LINE,
            ),
        ]
        | UnsetType
    ) = field(default=UNSET, repr=False)
    with_recording: WithRecording = False
    auto_notulen: AutoNotulen = False
    must_login: MustLogin = False
    mic_off: MicOff = False
    email_notification: EmailNotification = False


@frozen(kw_only=True)
class MeetingEstimateBody:
    """A meeting that `POST /credits/estimate` prices, by its tier and the flags of `POST /meetings`."""

    type: Literal["meeting"]
    pricing_tier_id: TierId
    with_recording: WithRecording = False
    auto_notulen: AutoNotulen = False
    must_login: MustLogin = False
    mic_off: MicOff = False
    email_notification: EmailNotification = False


@frozen(kw_only=True)
class NotulenEstimateBody:
    """The notes of a recording that `POST /credits/estimate` prices, by its length."""

    type: Literal["notulen"]
    duration: Annotated[
        int, Meta(ge=1, le=MAX_DURATION, description="Whole minutes of the recording.", examples=[60])
    ]


EstimateBody = OneOfBody(
    "EstimateBody", "type", {"meeting": MeetingEstimateBody, "notulen": NotulenEstimateBody}
)
"""What `POST /credits/estimate` takes (spec 4.1 rule 5)."""


@frozen(kw_only=True)
class CreateNoteBody:
    """What `POST /notes` takes."""

    recording_id: Annotated[
        str,
        Meta(
            min_length=1,
            description="The recording's id, from GET /recordings or recording.ready.",
            extra_json_schema=_ONE_LINE,
        ),
    ]
    language: (
        Annotated[
            Language,
            Meta(description="What the notes are written in: Indonesian, unless English is asked for."),
        ]
        | UnsetType
    ) = UNSET


@frozen(kw_only=True)
class RegisterWebhookBody:
    """What `POST /webhooks` takes (spec 4.3)."""

    url: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1000,
            description="https, port 443, a public host.",
            examples=["https://hooks.example.com/meetcore"],
            extra_json_schema={"format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]://"},
        ),
    ]
    event_types: EventTypes
    description: EndpointDescription | UnsetType = UNSET


@frozen(kw_only=True)
class UpdateWebhookBody:
    """What `PATCH /webhooks/{id}` takes (spec 4.4). `null` clears the description.

    `NOT_HERE` says what to do about a field that callers expect here and that there is not.
    """

    NOT_HERE: ClassVar[Mapping[str, str]] = {
        "url": "cannot be changed: register a new webhook for the new URL"
    }

    event_types: EventTypes | UnsetType = UNSET
    description: EndpointDescription | UnsetType | None = UNSET
    is_active: bool | UnsetType = UNSET


@frozen(kw_only=True)
class NoBody:
    """What an operation takes that needs no body: nothing, or an object without fields."""
