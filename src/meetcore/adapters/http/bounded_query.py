"""A limit on the size of queries, for the pages outside the API."""

from attrs import frozen
from starlette.types import ASGIApp, Receive, Scope, Send

from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.api.query import check_query
from meetcore.adapters.http.refuse import Refuse
from meetcore.domain.errors import InvalidRequest


@frozen
class BoundedQuery:
    """An ASGI application with a query size limit; a larger one is 400 in the envelope of the API."""

    app: ASGIApp
    limits: RequestLimits
    refuse: Refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose query is small enough."""
        try:
            check_query(scope["query_string"], self.limits)
        except InvalidRequest as refusal:
            await self.refuse(refusal, refusal)(scope, receive, send)
        else:
            await self.app(scope, receive, send)
