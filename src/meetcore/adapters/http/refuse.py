"""How a door that takes no key of ours refuses: signed downloads, what providers tell.

Owns the form of the answer and what is logged of it. Refuses to know which fault is which refusal: each door
says so itself.
"""

from collections.abc import Mapping

import structlog
from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.api.answers import render_error
from meetcore.adapters.api.http_common import headers_of
from meetcore.domain.errors import DomainError, InternalError
from meetcore.usecases.runtime import Runtime

__all__ = ["Refuse"]

log = structlog.get_logger("meetcore.http")


@frozen
class Refuse:
    """Refusals with an id of their own, by which the log is found.

    Args:
        what: what is refused, for the log.
        world: makes the ids.
        base_url: for the addresses of the error pages.
        headers: those that every answer of the door has.
    """

    what: str
    runtime: Runtime
    base_url: str
    headers: Mapping[str, str]

    def __call__(self, refusal: DomainError, cause: Exception, **told: object) -> Response:
        """The answer; `told` stands in the log beside the cause."""
        request_id = str(self.runtime.new_id(self.runtime.now()))
        told |= {"request_id": request_id, "code": refusal.code}
        if isinstance(refusal, InternalError):
            log.error("fault", **told, exc_info=cause)
        else:
            log.warning(f"{self.what} refused", **told, cause=repr(cause))
        answer = render_error(refusal, self.base_url, request_id)
        headers = {"X-Content-Type-Options": "nosniff", **self.headers, **headers_of(refusal)}
        return Response(answer.body, answer.status, headers, "application/json")
