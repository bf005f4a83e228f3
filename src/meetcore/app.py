"""The ASGI application: API, pages, and the workers if no broker is set.

`uvicorn meetcore.app:app` serves the API. Importing builds nothing: the server's start reads settings and
connects.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.util import find_spec
from time import monotonic

from attrs import define, field

try:
    import structlog
    from starlette.applications import Starlette
    from starlette.middleware.gzip import GZipMiddleware
except ModuleNotFoundError as missing:
    raise ImportError(
        f"meetcore.app needs {missing.name}: pip install 'meetcore[server]'", name=missing.name
    ) from missing
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from meetcore.adapters.api import http_common, operation
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.http import docs, downloads, openapi, pages, payment_events, protocol, provider_events
from meetcore.adapters.http.api_app import ApiApp
from meetcore.adapters.http.client_turns import ClientTurns
from meetcore.adapters.http.connections import ConnectionLimits, Connections, Drain, drain_on_sigterm
from meetcore.adapters.mcp.lazy_app import LazyMcpApp
from meetcore.adapters.mcp.oauth_routes import AGENT_PATH as AGENT_PATH
from meetcore.adapters.mcp.oauth_routes import oauth_routes
from meetcore.adapters.settings import Settings, SettingsRefused, load_settings
from meetcore.adapters.system import OTHER_FILES, allow_open_files, configure_logs, stop_with_parent
from meetcore.composition.application import Application, Part
from meetcore.composition.configuration import check_schema, warn_of_role, warn_of_settings
from meetcore.composition.gateways import gateway_pages, notification_parsers
from meetcore.composition.infrastructure import Network, open_application, served_parts
from meetcore.composition.plugins import OwnPorts
from meetcore.composition.providers import has_dashboard, provider_pages, warn_of_notes, webhook_parsers
from meetcore.composition.worker import api_tasks, collect_rarely, working
from meetcore.domain.errors import InvalidApiKey
from meetcore.domain.meetings.hosts import tiers_without_host
from meetcore.domain.requests.keys import read_bearer
from meetcore.domain.webhooks.addresses import Network as AddressNetwork
from meetcore.ports import observability, store
from meetcore.ports.payments import NotificationParser
from meetcore.ports.queries import Queries
from meetcore.ports.video_provider import WebhookParser

WITHOUT_TURNS = frozenset({"/healthz", "/readyz"})
"""The paths that load balancers ask for."""
WITHOUT_RESTS = ("/provider-events/", "/payment-events/")
"""The paths to which providers and gateways send many requests at once from one address."""
READY_S = 1.0
"""Seconds for PostgreSQL to answer `/readyz`, which load balancers poll."""
SCHEMA_EVERY_S = 5.0
"""Seconds after which a schema that is not of this release is looked at again."""
OTHER_SCHEMA = "the database is not that of this release"
log = structlog.get_logger("meetcore")


class Service:
    """The ASGI application: the API, and pages without authentication; by default of the environment.

    `ports` are those that the program makes by itself instead of naming them in the settings.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        network: Network | None = None,
        extra_routes: Callable[[Application], Iterable[BaseRoute]] = lambda _: (),
        ports: OwnPorts | None = None,
    ) -> None:
        self._settings = settings
        self._own = ports or OwnPorts()
        self._network = network
        self._extra_routes = extra_routes
        self._api_app: ApiApp | None = None
        self._mcp_app: ASGIApp | None = None
        self._pages = Starlette(lifespan=self._lifespan, exception_handlers={404: docs.answer_lost})
        # A redirect would send a link's signed query to the host that the request names.
        self._pages.router.redirect_slashes = False
        self._bounded_pages: ASGIApp = self._pages
        self._proxies: tuple[AddressNetwork, ...] = ()
        self._turns: ClientTurns | None = None
        self._event_turns: ClientTurns | None = None
        self._key_prefix = ""
        self._metrics = observability.NO_METRICS
        self._tracing = observability.NO_TRACING

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or run the lifespan."""
        if scope["type"] != "http":
            await self._pages(scope, receive, send)
            return
        with observability.logged_with(client=http_common.client_address(scope, self._proxies)):
            self._metrics.count(observability.IN_PROGRESS)
            try:
                with self._tracing.request(scope["headers"]):
                    await self._answer(scope, receive, send)
            finally:
                self._metrics.count(observability.IN_PROGRESS, by=-1)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, app = scope["path"], self._bounded_pages
        if self._api_app is not None and _is_of_the_api(path):
            app = self._api_app
        elif self._mcp_app is not None and path == AGENT_PATH:
            app = self._mcp_app
        turns = self._event_turns if path.startswith(WITHOUT_RESTS) else self._turns
        if turns is None or not _takes_turns(scope, self._key_prefix):
            await app(scope, receive, send)
        else:
            await turns.take(app, scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[dict[str, protocol.Front]]:
        async with AsyncExitStack() as stack:
            settings = self._settings or load_settings()
            if not structlog.is_configured():
                configure_logs(settings.log_level, "serve")
            if self._settings is None:  # an operator's, not a program's
                warn_of_settings(settings)
            pages.keep_links_out_of_access_logs()
            self._proxies = settings.proxy_networks
            self._turns, self._key_prefix = ClientTurns(self._proxies), settings.key_prefix
            self._event_turns = ClientTurns(self._proxies, has_rests=False)
            has_schema = _SchemaCheck(settings)
            is_there = await has_schema()
            parts = served_parts(settings)
            if Part.NOTES in parts:
                warn_of_notes()
            application = await stack.enter_async_context(
                open_application(settings, self._network, parts, own=self._own)
            )
            if is_there:
                await _log_tiers_without_host(application)
                if self._settings is None:
                    with suppress(store.StoreUnavailable):
                        await asyncio.to_thread(warn_of_role, settings)
            await stack.enter_async_context(api_tasks(application))
            base_url, runtime, admit = settings.base_url, application.runtime, application.admit
            contact = settings.support_contact
            document = openapi.daily_document(OPERATIONS, base_url, contact)
            limits = http_common.RequestLimits()
            self._api_app = ApiApp(application.api, admit, runtime, base_url, document, limits)
            self._mcp_app = await stack.enter_async_context(_open_mcp_app(application, settings, limits))
            refuse = pages.Refuse("page", runtime, base_url, {"Cache-Control": "no-store"})
            self._metrics, self._tracing = application.ports.metrics, application.ports.tracing
            bounded = pages.BoundedQuery(self._pages, limits, refuse)
            self._bounded_pages = pages.MeasuredPages(bounded, runtime)
            drain = stack.enter_context(drain_on_sigterm(settings.drain_s))
            stop_with_parent()  # one of several processes
            self._pages.router.routes[:] = [
                *_health_routes(application.ports.queries, READY_S, drain, has_schema),
                *provider_pages(application),
                *provider_events.provider_event_routes(
                    self._webhook_parsers(settings, application),
                    application.meetings.receive_event,
                    runtime,
                    base_url,
                    limits,
                ),
                *gateway_pages(application),
                *payment_events.payment_event_routes(
                    self._notification_parsers(settings, application),
                    application.payments.receive_notification,
                    runtime,
                    base_url,
                    limits,
                ),
                *downloads.download_routes(
                    application.api.download_recording,
                    {application.ports.files.provider: application.ports.files},
                    runtime,
                    base_url,
                ),
                *_dashboard_routes(application, settings, limits, self._api_app),
                *_oauth_routes(application, settings, limits),
                *_compressed(
                    docs.DocsPages(
                        lambda: document(runtime.now()), base_url, contact, has_dashboard=has_dashboard()
                    ).routes
                ),
                *self._extra_routes(application),
            ]
            if not str(settings.broker_url):
                await stack.enter_async_context(working(application))
            if self._settings is None:  # the process is this service's alone
                collect_rarely()
            yield {protocol.FRONT: _front(settings, self._api_app, drain)}
            self._api_app = self._mcp_app = None

    def _webhook_parsers(self, settings: Settings, application: Application) -> dict[str, WebhookParser]:
        name, own = application.ports.provider.abilities.name, self._own
        if own.provider is None:
            return webhook_parsers(settings, name)
        return {} if own.webhook_parser is None else {name: own.webhook_parser}

    def _notification_parsers(
        self, settings: Settings, application: Application
    ) -> dict[str, NotificationParser]:
        gateway, own = application.ports.gateway, self._own
        if gateway is None or own.gateway is None:
            return notification_parsers(settings, "" if gateway is None else gateway.name)
        return {} if own.notification_parser is None else {gateway.name: own.notification_parser}


@asynccontextmanager
async def _open_mcp_app(
    application: Application, settings: Settings, limits: http_common.RequestLimits
) -> AsyncIterator[ASGIApp | None]:
    """Open the MCP interface; `None` if it is off or its extra is not installed."""
    if settings.mcp == "off" or not has_agent_interface():
        yield None
        return
    admit, runtime = application.admit, application.runtime
    lazy_app = LazyMcpApp(
        application.api, admit, runtime, settings.base_url, limits, settings.mcp == "booking",
        has_grants=has_dashboard(),
    )  # fmt: skip
    async with lazy_app.open():
        yield lazy_app


def has_agent_interface() -> bool:
    """Return whether the extra `mcp` is installed."""
    return find_spec("mcp") is not None


def _dashboard_routes(
    application: Application, settings: Settings, limits: http_common.RequestLimits, api: ApiApp
) -> Iterable[BaseRoute]:
    """Return the routes of dashboard and console; none without their extra."""
    if not has_dashboard():
        return ()
    from meetcore.adapters.web.console.routes import console_routes  # an extra
    from meetcore.adapters.web.routes import dashboard_routes

    base_url, proxies = settings.base_url, settings.proxy_networks
    return (
        *dashboard_routes(application.dashboard, api, base_url, limits, proxies, has_home=settings.home_page),
        *console_routes(application.console, base_url, limits, proxies),
    )


def _oauth_routes(
    application: Application, settings: Settings, limits: http_common.RequestLimits
) -> Iterable[BaseRoute]:
    """Return the routes by which agents get grants; none without pages on which members give them."""
    if not has_dashboard() or settings.mcp == "off" or not has_agent_interface():
        return ()
    return oauth_routes(application.grants, settings.base_url, limits, settings.proxy_networks)


def _compressed(routes: Iterable[Route]) -> Iterable[Route]:
    """Send the answers of routes with gzip: of public texts, whose size tells nothing."""
    for route in routes:
        route.app = GZipMiddleware(route.app)
        yield route


@define
class _SchemaCheck:
    """The check of the schema, in a process that may start before its database."""

    _settings: Settings
    _has_passed: bool = field(default=False, init=False)

    async def __call__(self) -> bool:
        """Check until it has passed once; return whether it has. Raises as `check_schema`."""
        with suppress(store.StoreUnavailable):
            if not self._has_passed:
                await asyncio.to_thread(check_schema, self._settings)
            self._has_passed = True
        return self._has_passed


async def _log_tiers_without_host(application: Application) -> None:
    """Warn of tiers that no host can serve. They stay on sale: hosts can be added at any time."""
    if not application.ports.provider.abilities.has_hosts:
        return
    with suppress(store.StoreUnavailable):
        hosts = await application.ports.registry.list_hosts()
        lacking = tiers_without_host(application.policy.catalogue.on_sale(), hosts)
        if lacking:
            log.warning("tiers that no host can carry", tiers=[tier.id for tier in lacking])


def _front(settings: Settings, api_app: ApiApp, drain: Drain) -> protocol.Front:
    # Without free descriptors, accept fails for every client; database and workers need some too.
    files = allow_open_files(settings.connections + settings.webhook_posts_in_flight + OTHER_FILES)
    # Five addresses may fill a process; trusted proxies are not counted by address.
    limits = ConnectionLimits(min(settings.connections, files * 3 // 4), max(1, settings.connections // 5))
    connections = Connections(limits, settings.proxy_networks)
    return protocol.Front(connections, api_app.answer_to_unread, lambda: drain.is_on)


def _is_of_the_api(path: str) -> bool:
    return path == operation.API_ROOT or path.startswith(f"{operation.API_ROOT}/")


def _takes_turns(scope: Scope, prefix: str) -> bool:
    """Return whether a client has a share of such requests: of those that no quota of a key counts."""
    path = scope["path"]
    if _is_of_the_api(path) or path == AGENT_PATH:
        return not _has_key(scope, prefix)
    return path not in WITHOUT_TURNS


def _has_key(scope: Scope, prefix: str) -> bool:
    """Return whether a request has a key of the right form, which is counted for its own quota."""
    header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    try:
        read_bearer(header.decode("latin-1"), prefix, takes_tokens=scope["path"] == AGENT_PATH)
    except InvalidApiKey:
        return False
    return True


def _health_routes(queries: Queries, timeout_s: float, drain: Drain, has_schema: _SchemaCheck) -> list[Route]:
    async def live(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    refused_until = 0.0

    async def ready(_: Request) -> Response:
        nonlocal refused_until
        if drain.is_on:
            return _unready("the process is about to end")
        try:
            async with asyncio.timeout(timeout_s):
                await queries.ping()
            if monotonic() < refused_until:
                return _unready(OTHER_SCHEMA)
            if await has_schema():
                return PlainTextResponse("ok\n")
        except store.StoreReadOnly:
            return _unready("the database takes no writes")
        except SettingsRefused as refusal:
            refused_until = monotonic() + SCHEMA_EVERY_S
            log.warning("not ready", hint=str(refusal))
            return _unready(OTHER_SCHEMA)
        except (store.StoreUnavailable, TimeoutError):
            pass
        return _unready("the database does not answer")

    return [Route("/healthz", live), Route("/readyz", ready)]


def _unready(reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", 503, {"Retry-After": "5"})


app = Service()
