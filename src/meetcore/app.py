"""The ASGI application: the API, its pages, and the workers where no broker is set.

`uvicorn meetcore.app:app` serves the API. Importing this builds nothing: settings are read and
connections made when a server starts the application.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.util import find_spec

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from meetcore.adapters.api.client_address import client_address
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.api.operation import API_ROOT
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.http.api_app import ApiApp
from meetcore.adapters.http.bounded_query import BoundedQuery
from meetcore.adapters.http.connections import ConnectionLimits, Connections
from meetcore.adapters.http.docs import docs_routes
from meetcore.adapters.http.downloads import download_routes, keep_links_out_of_access_logs
from meetcore.adapters.http.drain import Drain, drain_on_sigterm
from meetcore.adapters.http.measured_pages import MeasuredPages
from meetcore.adapters.http.openapi import daily_document
from meetcore.adapters.http.protocol import FRONT, Front
from meetcore.adapters.http.provider_events import provider_event_routes
from meetcore.adapters.http.refuse import Refuse
from meetcore.adapters.mcp.lazy_app import LazyMcpApp
from meetcore.adapters.settings import Settings, load_settings
from meetcore.adapters.system import allow_open_files, configure_logs, stop_with_parent
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import Network, check_schema, open_application
from meetcore.composition.notes_extra import warn_of_notes
from meetcore.composition.ports import Part
from meetcore.composition.providers import provider_pages, webhook_parsers
from meetcore.composition.start_warnings import warn_of_role, warn_of_settings
from meetcore.composition.worker import api_tasks, working
from meetcore.domain.meetings.hosts import tiers_without_host
from meetcore.domain.webhooks.addresses import Network as AddressNetwork
from meetcore.ports.log_fields import logged_with
from meetcore.ports.metrics import NO_METRICS
from meetcore.ports.queries import Queries
from meetcore.ports.store import StoreReadOnly, StoreUnavailable
from meetcore.ports.tracing import NO_TRACING

AGENT_PATH = "/mcp"
OTHER_FILES = 256
"""Open files of a process beside connections and webhook posts: the database, the broker, logs, media."""

log = structlog.get_logger("meetcore")


class Service:
    """The ASGI application: the API, and the pages that need no key.

    Args:
        settings: read from the environment at start if `None`.
        network: how webhooks reach their receivers.
        extra_routes: further pages, outside the API.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        network: Network | None = None,
        extra_routes: Callable[[Application], Iterable[BaseRoute]] = lambda _: (),
    ) -> None:
        self._settings = settings
        self._network = network
        self._extra_routes = extra_routes
        self._api_app: ApiApp | None = None
        self._mcp_app: ASGIApp | None = None
        self._pages = Starlette(lifespan=self._lifespan)
        # A redirect would repeat the signed query of a link, to whatever host the request named.
        self._pages.router.redirect_slashes = False
        self._bounded_pages: ASGIApp = self._pages
        self._proxies: tuple[AddressNetwork, ...] = ()
        self._metrics = NO_METRICS
        self._tracing = NO_TRACING

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or run the lifespan."""
        if scope["type"] != "http":
            await self._pages(scope, receive, send)
            return
        with logged_with(client=client_address(scope, self._proxies)):
            self._metrics.begin_request()
            try:
                with self._tracing.request(scope["headers"]):
                    await self._answer(scope, receive, send)
            finally:
                self._metrics.end_request()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._api_app is not None and _is_of_the_api(scope["path"]):
            await self._api_app(scope, receive, send)
        elif self._mcp_app is not None and scope["path"] == AGENT_PATH:
            await self._mcp_app(scope, receive, send)
        else:
            await self._bounded_pages(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[dict[str, Front]]:
        async with AsyncExitStack() as stack:
            settings = self._settings or load_settings()
            if not structlog.is_configured():
                configure_logs(settings.log_level, "serve")
            if self._settings is None:  # an operator's, not those that a program made up
                warn_of_settings(settings)
            keep_links_out_of_access_logs()
            self._proxies = settings.proxy_networks
            is_there = await _is_ready(settings)
            parts = (Part.API,) if str(settings.broker_url) else tuple(Part)
            if Part.NOTES in parts:
                warn_of_notes()
            application = await stack.enter_async_context(open_application(settings, self._network, parts))
            if is_there:
                await _log_tiers_without_host(application)
                if self._settings is None:
                    with suppress(StoreUnavailable):
                        await asyncio.to_thread(warn_of_role, settings)
            await stack.enter_async_context(api_tasks(application))
            base_url, runtime, admit = settings.base_url, application.runtime, application.admit
            document = daily_document(OPERATIONS, base_url)
            limits = _request_limits(settings)
            self._api_app = ApiApp(application.api, admit, runtime, base_url, document, limits)
            self._mcp_app = await stack.enter_async_context(_open_mcp_app(application, settings, limits))
            refuse = Refuse("page", runtime, base_url, {"Cache-Control": "no-store"})
            self._metrics, self._tracing = application.ports.metrics, application.ports.tracing
            bounded = BoundedQuery(self._pages, limits, refuse)
            self._bounded_pages = MeasuredPages(bounded, self._metrics, self._tracing)
            drain = stack.enter_context(drain_on_sigterm(settings.drain_s))
            stop_with_parent()  # one of several processes: nobody else would stop it
            self._pages.router.routes[:] = [
                *_health_routes(application.ports.queries, settings.ready_timeout_s, drain),
                *docs_routes(OPERATIONS),
                *provider_pages(application),
                *provider_event_routes(
                    webhook_parsers(settings),
                    application.meetings.receive_event,
                    runtime,
                    base_url,
                    limits,
                    settings.provider_event_bytes,
                ),
                *download_routes(
                    application.api.download_recording,
                    {application.ports.files.provider: application.ports.files},
                    runtime,
                    base_url,
                    settings.download_limits,
                ),
                *_dashboard_routes(application, settings, limits),
                *self._extra_routes(application),
            ]
            if not str(settings.broker_url):
                await stack.enter_async_context(working(application))
            if self._settings is None:  # the process is this service's alone, its workers' where it has some
                _freeze_start()
            yield {FRONT: _front(settings, self._api_app, drain)}
            self._api_app = self._mcp_app = None


@asynccontextmanager
async def _open_mcp_app(
    application: Application, settings: Settings, limits: RequestLimits
) -> AsyncIterator[ASGIApp | None]:
    """Open the agent interface; `None` if it is switched off or its extra is not installed."""
    if not (settings.mcp and has_agent_interface()):
        yield None
        return
    admit, runtime = application.admit, application.runtime
    lazy_app = LazyMcpApp(application.api, admit, runtime, settings.base_url, limits)
    async with lazy_app.open():
        yield lazy_app


def has_agent_interface() -> bool:
    """Return whether the extra `mcp` is installed."""
    return find_spec("mcp") is not None


def has_dashboard() -> bool:
    """Return whether the extra `web` is installed."""
    return all(map(find_spec, ("babel", "jinja2")))


def _dashboard_routes(
    application: Application, settings: Settings, limits: RequestLimits
) -> Iterable[BaseRoute]:
    """Return the pages of the dashboard and of the console; none if their extra is not installed."""
    if not has_dashboard():
        return ()
    from meetcore.adapters.web.console.routes import console_routes  # an extra
    from meetcore.adapters.web.routes import dashboard_routes

    base_url, proxies = settings.base_url, settings.proxy_networks
    return (
        *dashboard_routes(application.dashboard, base_url, limits, proxies),
        *console_routes(application.console, base_url, limits, proxies),
    )


async def _is_ready(settings: Settings) -> bool:
    """Return whether the database answers and has the schema; without it, the service answers 503."""
    try:
        await asyncio.to_thread(check_schema, settings)
    except StoreUnavailable:
        return False
    return True


async def _log_tiers_without_host(application: Application) -> None:
    """Warn of tiers that no host can serve. They stay on sale, as hosts can be added at any time."""
    if not application.ports.provider.abilities.has_hosts:
        return
    with suppress(StoreUnavailable):
        hosts = await application.ports.registry.list_hosts()
        lacking = tiers_without_host(application.policy.catalogue.on_sale(), hosts)
        if lacking:
            log.warning("tiers that no host can carry", tiers=[tier.id for tier in lacking])


def _request_limits(settings: Settings) -> RequestLimits:
    return RequestLimits(
        query_parameters=settings.query_parameters, query_bytes=settings.query_bytes,
        body_timeout_s=settings.body_timeout_s, body_bytes_per_s=settings.body_bytes_per_s,
    )  # fmt: skip


def _freeze_start() -> None:
    """Leave what the start has made to the end of the process: collections do not look at it again."""
    gc.collect()
    gc.freeze()


def _front(settings: Settings, api_app: ApiApp, drain: Drain) -> Front:
    # An accept without a free file descriptor refuses every client; database and workers need some, too.
    files = allow_open_files(settings.connections + settings.webhook_posts_in_flight + OTHER_FILES)
    limits = ConnectionLimits(
        min(settings.connections, files * 3 // 4), settings.connections_per_address,
        settings.head_bytes, settings.head_timeout_s, settings.body_timeout_s,
    )  # fmt: skip
    connections = Connections(limits, settings.proxy_networks)
    return Front(connections, api_app.answer_to_unread, lambda: drain.is_on)


def _is_of_the_api(path: str) -> bool:
    return path == API_ROOT or path.startswith(f"{API_ROOT}/")


def _health_routes(queries: Queries, timeout_s: float, drain: Drain) -> list[Route]:
    async def live(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(_: Request) -> Response:
        if drain.is_on:
            return _unready("the process is about to end")
        try:
            async with asyncio.timeout(timeout_s):
                await queries.ping()
        except StoreReadOnly:
            return _unready("the database takes no writes")
        except (StoreUnavailable, TimeoutError):
            return _unready("the database does not answer")
        return PlainTextResponse("ok\n")

    return [Route("/healthz", live), Route("/readyz", ready)]


def _unready(reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", 503, {"Retry-After": "5"})


app = Service()
