"""Refusals of the endpoints without an API key: signed downloads, provider events.

Owns the form of the answer and of its log line. Each endpoint maps its own faults to refusals.
"""

from collections.abc import Mapping

import structlog
from attrs import frozen
from starlette.responses import Response

from meetcore.adapters.api.answers import render_error
from meetcore.adapters.api.http_common import headers_of
from meetcore.domain.errors import DomainError, InternalError
from meetcore.usecases.runtime import Runtime

log = structlog.get_logger("meetcore.http")


@frozen
class Refuse:
    """Refusals with a request id, which is in the log too.

    Args:
        what: the name of the endpoint, for the log.
        runtime: makes the ids.
        base_url: for the addresses of the error pages.
        headers: those of every answer of the endpoint.
    """

    what: str
    runtime: Runtime
    base_url: str
    headers: Mapping[str, str]

    def __call__(self, refusal: DomainError, cause: Exception, **details: object) -> Response:
        """Build the answer; log `details` with the cause."""
        request_id = str(self.runtime.new_id(self.runtime.now()))
        details |= {"request_id": request_id, "code": refusal.code}
        if isinstance(refusal, InternalError):
            log.error("fault", **details, exc_info=cause)
        else:
            log.warning(f"{self.what} refused", **details, cause=repr(cause))
        answer = render_error(refusal, self.base_url, request_id)
        headers = {"X-Content-Type-Options": "nosniff", **self.headers, **headers_of(refusal)}
        return Response(answer.body, answer.status, headers, "application/json")
