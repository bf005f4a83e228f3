"""Zoom's error answers, by name, as its documents show them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from attrs import frozen

from meetcore.testing.wire import Reply, as_json

__all__ = ["REFUSALS", "Refused", "refusal"]


@frozen
class _RefusalText:
    status: int
    code: int
    message: str


REFUSALS: Final[Mapping[str, _RefusalText]] = {
    "validation": _RefusalText(400, 300, "Validation Failed."),
    "user_not_found": _RefusalText(404, 1001, "User does not exist: {about}."),
    "not_licensed_to_schedule": _RefusalText(
        400, 3161, "Meeting hosting and scheduling capabilities are not allowed for your user account."
    ),
    "token_expired": _RefusalText(401, 124, "Access token is expired."),
    "token_invalid": _RefusalText(401, 124, "Invalid access token."),
    "missing_scope": _RefusalText(
        400, 4711, "Invalid access token, does not contain scopes:[meeting:write:meeting:admin]."
    ),
    "meeting_not_found": _RefusalText(404, 3001, "Meeting does not exist: {about}."),
    "delete_in_progress": _RefusalText(
        400, 3002, "Sorry, you cannot delete this meeting since it is in progress."
    ),
    "delete_ended": _RefusalText(400, 3007, "Sorry, you cannot delete this meeting since it has ended."),
    "no_recording": _RefusalText(404, 3301, "There is no recording for this meeting."),
    # The answer for a meeting that does not run is not documented; this is the code of any wrong request.
    "not_running": _RefusalText(400, 300, "This meeting is not in progress."),
    "rate_qps": _RefusalText(
        429, 429, "You have reached the maximum per-second rate limit for this API. Try again later."
    ),
    "rate_daily_account": _RefusalText(
        429,
        429,
        "You have reached the maximum daily rate limit for this API. Refer to the response header for "
        "details on when you can make another request.",
    ),
    "rate_daily_user": _RefusalText(
        429,
        429,
        "You have exceeded the daily rate limit (100) of Meeting Create/Update API requests permitted for "
        "this particular user. You may resume these requests at GMT 00:00:00.",
    ),
}


class Refused(Exception):
    """The account refuses: one of `REFUSALS`, about a user, a meeting or a field."""

    def __init__(self, name: str, about: str = "") -> None:
        super().__init__(name)
        self.name, self.about = name, about


def refusal(name: str, about: str = "") -> Reply:
    """The answer of this name."""
    text = REFUSALS[name]
    body: dict[str, object] = {"code": text.code, "message": text.message.replace("{about}", about)}
    if name == "validation":
        body["errors"] = [{"field": about or "start_time", "message": "Invalid field."}]
    return as_json(body, text.status, _headers(name))


def _headers(name: str) -> dict[str, str]:
    now = datetime.now(UTC)
    if name == "rate_qps":
        return {
            "X-RateLimit-Category": "Medium",
            "X-RateLimit-Type": "QPS",
            "X-RateLimit-Limit": "20",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(int(now.timestamp()) + 1),
        }
    if name == "rate_daily_account":
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        return {
            "X-RateLimit-Category": "Heavy",
            "X-RateLimit-Type": "Daily-limit",
            "X-RateLimit-Limit": "30000",
            "X-RateLimit-Remaining": "0",
            "Retry-After": midnight.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    return {}
