"""The request bodies: one class for each, the single source of decoding, of all errors, and of the schema.

Lengths are code points (spec 8). A field may be absent where it has a default.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from attrs import field, frozen
from msgspec import Meta

from meetcore.adapters.api.wire_types import LINES, Rule, shown_name
from meetcore.domain.errors import InvalidRequest
from meetcore.domain.meetings import hosts, meetings, schedule
from meetcore.domain.meetings.meetings import MeetingOptions
from meetcore.domain.money.pricing import MAX_DURATION
from meetcore.domain.money.transfers import MAX_CREDITS
from meetcore.domain.notes.notes import Language
from meetcore.domain.webhooks import endpoints, events, urls


@frozen
class OneOfBody:
    """Bodies of which a request has one: the field `tag` says which, by its value."""

    name: str
    tag: str
    bodies: Mapping[str, type]


def _rule(field_name: str, read: Callable[[str], object]) -> Rule:
    """Make a rule of a function of the domain that refuses a text by the name of a field."""

    def problems(value: Any) -> list[str]:
        try:
            read(value if isinstance(value, str) else "")
        except InvalidRequest as error:
            fields: Any = error.details["fields"]
            return list(fields.get(field_name, ()))
        return []

    return Rule(problems)


def _url_problems(value: Any) -> list[str]:
    return _URL.problems(value) if isinstance(value, str) else []


def _instant_problems(value: Any) -> list[str]:
    try:
        schedule.read_instant(value if isinstance(value, str) else "")
    except ValueError as error:
        return [str(error)]
    return []


def _title_problems(value: Any) -> list[str]:
    """Find a title that cannot be seen, so that it is named beside the problems of other fields."""
    has_length = isinstance(value, str) and 0 < len(value) <= meetings.TITLE.max_length
    return meetings.TITLE.problems(value) if has_length else []


_MOST_NAMED = 10
"""Unknown event kinds that a refusal names."""


def _event_type_problems(value: Any) -> list[str]:
    texts = [kind for kind in value if isinstance(kind, str)] if isinstance(value, list) else []
    known = [kind.value for kind in events.EventKind]
    problems = []
    if unknown := [kind for kind in dict.fromkeys(texts) if kind not in known]:
        named = ", ".join(f"'{shown_name(kind)}'" for kind in unknown[:_MOST_NAMED])
        problems.append(f"does not know {named}; there are: {', '.join(known)}")
    if len(set(texts)) < len(texts):
        problems.append("must not name an event kind twice")
    if problems and len(texts) < len(value):
        problems.append("must be an array of strings")
    return problems


_DATE = _rule("date", lambda text: schedule.meeting_start(text, "00:00"))
_TIME = _rule("start_time", lambda text: schedule.meeting_start("2000-01-01", text))
_URL = _rule("url", urls.parse_webhook_url)
_TITLE = Rule(_title_problems)

# The decoder has words of its own for this: it is for the schema. RE2, as in Go, has no \u.
_ONE_LINE = {"pattern": r"^[^\x00-\x1f\x7f-\x9f]*$"}


def _line(about: str, at_least: int = 1, at_most: int | None = None, **more: Any) -> Meta:
    """Describe a text without line breaks, its length in code points."""
    return Meta(
        min_length=at_least, max_length=at_most, description=about, extra_json_schema=_ONE_LINE, **more
    )


EndpointDescription = Annotated[
    str, LINES, Meta(max_length=endpoints.MAX_DESCRIPTION_LENGTH, description="For people; shown in lists.")
]
EventTypes = Annotated[
    tuple[events.EventKind, ...],
    Rule(_event_type_problems),
    Meta(
        min_length=1, description="The kinds to receive; none twice.", extra_json_schema={"uniqueItems": True}
    ),
]
"""The events that an endpoint is sent (rule 4.3/event_types)."""
TierId = Annotated[str, _line("A value from GET /pricing-tiers.", examples=["standard-100"])]


_PASSWORD = _line(
    "Generated when absent. A refusal names the characters that the provider takes.",
    hosts.MIN_PASSWORD_LENGTH, hosts.MAX_PASSWORD_LENGTH,
)  # fmt: skip


@frozen(kw_only=True)
class CreateMeetingBody:
    """What `POST /meetings` takes (spec 4.1)."""

    title: Annotated[
        str,
        _TITLE,
        _line("What the meeting is called.", meetings.TITLE.min_length, meetings.TITLE.max_length),
    ]
    date: Annotated[
        str,
        _DATE,
        Meta(
            pattern="^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$",
            description="YYYY-MM-DD, read in WIB (UTC+7).",
            extra_json_schema={"format": "date"},
        ),
    ]
    start_time: Annotated[
        str,
        _TIME,
        Meta(
            pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$",
            description="HH:mm, read in WIB (UTC+7).",
            examples=["09:00"],
        ),
    ]
    pricing_tier_id: TierId
    description: (
        Annotated[str, LINES, Meta(max_length=meetings.DESCRIPTION.max_length, description="Lines of text.")]
        | None
    ) = None
    password: Annotated[str, _PASSWORD] | None = field(default=None, repr=False)
    options: MeetingOptions


@frozen(kw_only=True)
class MeetingEstimateBody:
    """A meeting that `POST /credits/estimate` prices, by its tier and the flags of `POST /meetings`."""

    type: Literal["meeting"]
    pricing_tier_id: TierId
    options: MeetingOptions


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
"""What `POST /credits/estimate` takes (rule 4.1/5)."""


@frozen(kw_only=True)
class CreateNoteBody:
    """What `POST /notes` takes."""

    recording_id: Annotated[str, _line("The recording's id, from GET /recordings or recording.ready.")]
    language: Annotated[
        Language,
        Meta(
            description="What the notes are written in: Indonesian, unless English is asked for. Without an "
            "AI endpoint nothing is translated: only the headings are in this language."
        ),
    ] = Language.INDONESIAN


@frozen(kw_only=True)
class TopupBody:
    """What `POST /credits/topups` takes: a package, or a number of credits where any number is sold."""

    package_id: (
        Annotated[str, _line("A value from GET /credit-packages.", examples=["credits-500"])] | None
    ) = None
    credits: (
        Annotated[int, Meta(ge=1, le=MAX_CREDITS, description="Whole credits, where any number is sold.")]
        | None
    ) = None


@frozen(kw_only=True)
class RegisterWebhookBody:
    """What `POST /webhooks` takes (spec 4.3)."""

    url: Annotated[
        str,
        Rule(_url_problems),
        Meta(
            min_length=1,
            max_length=urls.MAX_URL_LENGTH,
            description="https, port 443, a public host.",
            examples=["https://hooks.example.com/meetcore"],
            extra_json_schema={"format": "uri", "pattern": "^[Hh][Tt][Tt][Pp][Ss]://"},
        ),
    ]
    event_types: EventTypes
    description: EndpointDescription | None = None


@frozen(kw_only=True)
class UpdateWebhookBody:
    """What `PATCH /webhooks/{id}` takes (rule 4.4/fields). `null` clears the description."""

    NOT_HERE: ClassVar[Mapping[str, str]] = {
        "url": "cannot be changed: register a new webhook for the new URL"
    }

    event_types: EventTypes | endpoints.Unset = endpoints.UNSET
    description: EndpointDescription | endpoints.Unset | None = endpoints.UNSET
    is_active: bool | endpoints.Unset = endpoints.UNSET


@frozen(kw_only=True)
class RecoverBody:
    """What `POST /webhooks/{id}/recover` takes."""

    since: Annotated[
        str,
        Rule(_instant_problems),
        Meta(
            description="RFC 3339 with an offset, or YYYY-MM-DD for 00:00 WIB; at most 90 days ago.",
            examples=["2026-11-21T11:00:00Z"],
            extra_json_schema={
                "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]
            },
        ),
    ]


@frozen(kw_only=True)
class NoBody:
    """What an operation takes that needs no body: nothing, or an object without fields."""
