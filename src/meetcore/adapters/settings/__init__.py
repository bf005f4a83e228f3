"""Settings from the environment (`MEETCORE_…`) or a TOML file, checked before anything starts.

The file is named by `MEETCORE_CONFIG_FILE` and has one table, `[meetcore]`, with the names below in
lower case. The environment wins. An impossible value is refused with the name of its variable;
secrets are never shown.
"""

import os
import re
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any
from urllib.parse import urlsplit

import attrs
import cattrs
import psycopg
import typed_settings
from attrs import define, field
from psycopg.conninfo import conninfo_to_dict
from typed_settings.converters import register_attrs_hook_factory, register_secret_hook, to_bool
from typed_settings.exceptions import InvalidSettingsError, TsError

from meetcore.adapters.settings.names import check_file, misspelt_variables, unknown_variables
from meetcore.adapters.settings.tiers import read_tiers
from meetcore.domain.meetings.hosts import DEFAULT_SHARE_PERCENT
from meetcore.domain.meetings.orphans import DEFAULT_WINDOW_S
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.notes.download_limits import DownloadLimits
from meetcore.domain.notes.recordings import RETENTION
from meetcore.domain.requests.idempotency import MAX_WAITING_DUPLICATES
from meetcore.domain.requests.keys import is_prefix
from meetcore.domain.requests.rate_window import Quotas
from meetcore.domain.webhooks.addresses import Network
from meetcore.domain.webhooks.retry_schedule import DEFAULT_DELAYS_S, NOTE_DELAYS_S, RetrySchedule

__all__ = ["DEFAULT_BASE_URL", "Settings", "SettingsRefused", "load_settings", "strange_variables"]

PREFIX = "MEETCORE_"
DEFAULT_BASE_URL = "http://127.0.0.1:8000"
PROVIDERS = ("sandbox", "jitsi", "zoom")
# What a provider cannot do without, by the names of the settings.
_PROVIDER_NEEDS = {"zoom": ("zoom_account_id", "zoom_client_id", "zoom_client_secret")}
_KINDS = {int: "a whole number", bool: "true or false"}
_OPTION = re.compile(r"for option '(\w+)'")


class SettingsRefused(Exception):
    """A setting is impossible. The message names the variable and what it must be."""


def _checked(
    check: Callable[[str], object], must: str, *, with_reason: bool = False
) -> Callable[[object, Any, Any], None]:
    """A validator: the check raises ValueError; the message names the variable, never the value.

    `with_reason` appends the check's own message, for a check whose message holds no secret.
    """

    def validate(_: object, attribute: Any, value: Any) -> None:
        try:
            check(value)
        except (ValueError, OSError, TypeError, KeyError, AttributeError) as error:
            why = f": {error}" if with_reason else ""
            raise ValueError(f"{PREFIX}{attribute.name.upper()} {must}{why}") from None

    return validate


def _needs(condition: Callable[[Any], bool]) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not condition(value):
            raise ValueError

    return check


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(item) for item in _items(text))


def _delays(text: str) -> RetrySchedule:
    return RetrySchedule(tuple(int(item) for item in _items(text)))


def _is_http_origin(text: str) -> bool:
    parts = urlsplit(text)
    is_place = bool(parts.hostname) and parts.port != 0  # asking for the port refuses what is none
    return parts.scheme in ("http", "https") and is_place and not (parts.query or parts.fragment)


def _check_database(text: str) -> None:
    if not text:
        return
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError
    try:
        parts = conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        raise ValueError from None  # its message may hold the password
    for port in _items(str(parts.get("port", ""))):
        int(port)


def _is_server(text: str, *schemes: str) -> bool:
    """Return whether it is the address of a server, or of several with semicolons, or empty."""
    places = [urlsplit(place) for place in text.split(";")] if text else []
    return all(place.scheme in schemes and place.port != 0 for place in places)


def _is_link_for_all(text: str) -> bool:
    """Return whether a URL may be used in public links: it contains no user name and no password."""
    return _is_http_origin(text) and "@" not in urlsplit(text).netloc


def _is_one_word(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _check_authorities(path: str) -> None:
    if path:
        SSLContext(PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)


def _without_slash(text: str) -> str:
    return text.rstrip("/")


def _lower(text: str) -> str:
    return text.lower()


_REDIS_OR_AMQP = _needs(lambda text: _is_server(text, "redis", "rediss", "amqp", "amqps"))
_HTTP_ADDRESS = _checked(_needs(_is_http_origin), "must be an http:// or https:// address")
_ONE_WORD = _checked(_needs(_is_one_word), "must be one word of ASCII, as it is shown at the provider")
_ONE_WORD_OR_NONE = _checked(
    _needs(_is_one_word), "must be one word of ASCII, or empty to do it on this machine"
)
_POSITIVE = _checked(_needs(lambda number: number >= 1), "must be a whole number of at least 1")


@define
class Settings:
    """What an operator can set; each name is a variable with the prefix `MEETCORE_`."""

    database_url: typed_settings.SecretStr = field(
        default=typed_settings.SecretStr(""),
        validator=_checked(_check_database, "must be a postgresql:// address"),
    )
    broker_url: typed_settings.SecretStr = field(
        default=typed_settings.SecretStr(""),
        validator=_checked(_REDIS_OR_AMQP, "must be a redis:// or amqp:// address, or empty for in-process"),
    )
    rate_store_url: typed_settings.SecretStr = field(
        default=typed_settings.SecretStr(""),
        validator=_checked(
            _needs(lambda text: _is_server(text, "redis", "rediss")),
            "must be a redis:// address, or empty for the database",
        ),
    )
    base_url: str = field(default=DEFAULT_BASE_URL, converter=_without_slash, validator=_HTTP_ADDRESS)
    key_prefix: str = field(
        default="mk",
        validator=_checked(
            _needs(is_prefix), "must be 1 to 16 lower-case letters and digits, a letter first"
        ),
    )
    provider: str = field(
        default="sandbox",
        validator=_checked(_needs(lambda text: text in PROVIDERS), f"must be one of: {', '.join(PROVIDERS)}"),
    )
    jitsi_url: str = field(
        default="https://meet.jit.si",
        converter=_without_slash,
        validator=_checked(
            _needs(_is_link_for_all), "must be an http:// or https:// address, without a user in it"
        ),
    )
    zoom_account_id: str = field(default="", validator=_ONE_WORD)
    zoom_client_id: str = field(default="", validator=_ONE_WORD)
    zoom_client_secret: typed_settings.SecretStr = field(
        default=typed_settings.SecretStr(""), validator=_ONE_WORD
    )
    zoom_webhook_token: typed_settings.SecretStr = field(
        default=typed_settings.SecretStr(""), validator=_ONE_WORD
    )
    zoom_api_url: str = field(
        default="https://api.zoom.us/v2", converter=_without_slash, validator=_HTTP_ADDRESS
    )
    zoom_oauth_url: str = field(default="https://zoom.us/oauth/token", validator=_HTTP_ADDRESS)
    # Transcription and notes: an endpoint with OpenAI's API, or this machine.
    ai_base_url: str = field(
        default="",
        converter=_without_slash,
        validator=_checked(
            _needs(lambda text: not text or _is_link_for_all(text)),
            "must be an http:// or https:// address without a user in it, or empty for this machine",
        ),
    )
    ai_api_key: typed_settings.SecretStr = field(default=typed_settings.SecretStr(""), validator=_ONE_WORD)
    ai_transcribe_model: str = field(default="whisper-1", validator=_ONE_WORD_OR_NONE)
    ai_transcribe_format: str = field(
        default="verbose_json",
        validator=_checked(
            _needs(lambda text: text in ("verbose_json", "json")), "must be one of: verbose_json, json"
        ),
    )
    ai_write_model: str = field(default="gpt-4o-mini", validator=_ONE_WORD_OR_NONE)
    ai_context_chars: int = field(
        default=200_000,
        validator=_checked(_needs(lambda number: number >= 8_000), "must be a whole number of at least 8000"),
    )
    ai_timeout_s: int = field(default=120, validator=_POSITIVE)
    tiers_file: str = field(
        default="",
        validator=_checked(
            read_tiers, "must be a TOML file of [[tier]] tables; see docs/operating.md", with_reason=True
        ),
    )
    quota_read: int = field(default=Quotas().read, validator=_POSITIVE)
    quota_write: int = field(default=Quotas().write, validator=_POSITIVE)
    quota_credit: int = field(default=Quotas().credit, validator=_POSITIVE)
    quota_tool: int = field(default=Quotas().tool, validator=_POSITIVE)
    duplicates_waiting: int = field(default=MAX_WAITING_DUPLICATES, validator=_POSITIVE)
    download_streams_per_link: int = field(default=DownloadLimits().streams_per_link, validator=_POSITIVE)
    download_streams_per_account: int = field(
        default=DownloadLimits().streams_per_account, validator=_POSITIVE
    )
    download_min_bytes_per_s: int = field(default=DownloadLimits().min_bytes_per_s, validator=_POSITIVE)
    download_rate_window_s: int = field(default=int(DownloadLimits().rate_window_s), validator=_POSITIVE)
    mcp: bool = True
    webhook_allowed_networks: str = field(
        default="",
        validator=_checked(_networks, "must be networks such as 10.0.0.0/8, comma separated"),
    )
    webhook_denied_networks: str = field(
        default="",
        validator=_checked(_networks, "must be networks such as 203.0.113.0/24, comma separated"),
    )
    webhook_ca_file: str = field(
        default="",
        validator=_checked(_check_authorities, "must be a file of PEM certificates"),
    )
    webhook_retry_schedule: str = field(
        default=",".join(str(delay_s) for delay_s in DEFAULT_DELAYS_S),
        validator=_checked(_delays, "must be whole seconds, comma separated"),
    )
    # How long a process owns what it works on. Longer than the time limit of the work (10 s each), or
    # work is taken over that is still being done; shorter is for tests.
    webhook_lease_s: int = field(default=30, validator=_POSITIVE)
    webhook_endpoints_per_account: int = field(default=50, validator=_POSITIVE)
    webhook_posts_per_endpoint: int = field(default=8, validator=_POSITIVE)
    webhook_posts_per_host: int = field(default=16, validator=_POSITIVE)
    webhook_posts_per_host_per_s: int = field(default=50, validator=_POSITIVE)
    webhook_lookups_per_account: int = field(default=8, validator=_POSITIVE)
    webhook_lookups_per_domain: int = field(default=4, validator=_POSITIVE)
    webhook_posts_in_flight: int = field(default=500, validator=_POSITIVE)
    meeting_lease_s: int = field(default=20, validator=_POSITIVE)
    # What a request and a connection may take before they are whole.
    query_parameters: int = field(default=32, validator=_POSITIVE)
    query_bytes: int = field(default=4096, validator=_POSITIVE)
    head_bytes: int = field(default=32 * 1024, validator=_POSITIVE)
    head_timeout_s: int = field(default=10, validator=_POSITIVE)
    body_timeout_s: int = field(default=10, validator=_POSITIVE)
    body_bytes_per_s: int = field(default=1024, validator=_POSITIVE)
    connections: int = field(default=1000, validator=_POSITIVE)
    connections_per_address: int = field(default=200, validator=_POSITIVE)
    provider_event_bytes: int = field(default=8 * 1024 * 1024, validator=_POSITIVE)
    drain_s: int = field(
        default=5,
        validator=_checked(_needs(lambda number: number >= 0), "must be a whole number of at least 0"),
    )
    trusted_proxies: str = field(
        default="",
        validator=_checked(_networks, "must be networks such as 10.0.0.0/8, comma separated"),
    )
    # How long after a creation the provider's list must be clean of orphans. Shorter than the five minutes
    # that a provider may be late is for tests.
    orphan_window_s: int = field(default=DEFAULT_WINDOW_S, validator=_POSITIVE)
    # Of what other accounts left of the day's creations that the provider allows its hosts.
    account_creations_percent: int = field(
        default=DEFAULT_SHARE_PERCENT,
        validator=_checked(_needs(lambda percent: 1 <= percent <= 100), "must be from 1 to 100"),
    )
    scratch_directory: str = field(
        default="",
        validator=_checked(
            _needs(lambda path: not path or Path(path).is_dir()),
            "must be a directory, or empty for the system",
        ),
    )
    # Of one processor, for each process that works on media. With less than 10 the limit of half an hour by
    # the clock would end what computes for the minutes that it may.
    media_cpu_percent: int = field(
        default=0,
        validator=_checked(
            _needs(lambda percent: percent == 0 or 10 <= percent <= 100),
            "must be from 10 to 100, or 0 for what fits the machine",
        ),
    )
    recording_retention_days: int = field(default=RETENTION.days, validator=_POSITIVE)
    notes_in_flight: int = field(default=4, validator=_POSITIVE)
    note_lease_s: int = field(default=30, validator=_POSITIVE)
    note_retry_schedule: str = field(
        default=",".join(str(delay_s) for delay_s in NOTE_DELAYS_S),
        validator=_checked(_delays, "must be whole seconds, comma separated"),
    )
    transcript_wait_s: int = field(
        default=0,
        validator=_checked(_needs(lambda number: number >= 0), "must be a whole number of at least 0"),
    )
    secrets_key: typed_settings.SecretStr = field(
        default=typed_settings.SecretStr(""),
    )
    database_pool_size: int = field(default=10, validator=_POSITIVE)
    database_timeout_s: int = field(
        default=12,
        validator=_checked(_needs(lambda number: number >= 3), "must be a whole number of at least 3"),
    )
    unknown_keys_pool_percent: int = field(
        default=25,
        validator=_checked(_needs(lambda percent: 1 <= percent <= 100), "must be from 1 to 100"),
    )
    unknown_key_remembered_s: int = field(
        default=10,
        validator=_checked(_needs(lambda number: number >= 0), "must be a whole number of at least 0"),
    )
    ready_timeout_s: int = field(default=1, validator=_POSITIVE)
    log_level: str = field(
        default="info",
        converter=_lower,
        validator=_checked(
            _needs(lambda text: text in ("debug", "info", "warning", "error")),
            "must be one of: debug, info, warning, error",
        ),
    )

    @property
    def quotas(self) -> Quotas:
        """Requests per key, class and minute."""
        return Quotas(self.quota_read, self.quota_write, self.quota_credit, self.quota_tool)

    @property
    def download_limits(self) -> DownloadLimits:
        """The limits of downloads in one process."""
        return DownloadLimits(
            self.download_streams_per_link, self.download_streams_per_account,
            self.download_min_bytes_per_s, self.download_rate_window_s,
        )  # fmt: skip

    @property
    def catalogue(self) -> TierCatalogue:
        """The tiers on sale."""
        return read_tiers(self.tiers_file)

    @property
    def allowed_networks(self) -> tuple[Network, ...]:
        """Networks that webhooks may point into although they are not public."""
        return _networks(self.webhook_allowed_networks)

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        """The networks of proxies whose `X-Forwarded-For` is trusted."""
        return _networks(self.trusted_proxies)

    @property
    def denied_networks(self) -> tuple[Network, ...]:
        """Networks that no webhook goes to, the allowed ones included."""
        return _networks(self.webhook_denied_networks)

    @property
    def retry_schedule(self) -> RetrySchedule:
        """The delays between attempts at a delivery."""
        return _delays(self.webhook_retry_schedule)

    @property
    def recording_retention(self) -> timedelta:
        """How long after its beginning a recording is kept."""
        return timedelta(days=self.recording_retention_days)

    @property
    def note_schedule(self) -> RetrySchedule:
        """The delays between tries of a note's step."""
        return _delays(self.note_retry_schedule)

    def require_database(self) -> str:
        """The database's address.

        Raises:
            SettingsRefused: it is not set.
        """
        url = str(self.database_url)
        if not url:
            raise SettingsRefused(
                f"{PREFIX}DATABASE_URL is not set. Point it at a PostgreSQL 15 or newer, "
                "or run `meetcore dev`, which brings its own."
            )
        return str(url)

    def require_provider(self) -> None:
        """Make sure that all required settings of the provider are set.

        Raises:
            SettingsRefused: something is not; the message names each.
        """
        lacking = [name for name in _PROVIDER_NEEDS.get(self.provider, ()) if not str(getattr(self, name))]
        if lacking:
            names = ", ".join(f"{PREFIX}{name.upper()}" for name in lacking)
            raise SettingsRefused(f"MEETCORE_PROVIDER is {self.provider}, which needs {names} too.")

    def require_ai(self) -> None:
        """Make sure that a key for an AI endpoint comes with the endpoint's address.

        Raises:
            SettingsRefused: the address is missing.
        """
        if str(self.ai_api_key) and not self.ai_base_url:
            raise SettingsRefused(
                f"{PREFIX}AI_API_KEY is set, and {PREFIX}AI_BASE_URL is not: say whose key it is, such as "
                "https://api.openai.com/v1"
            )


def load_settings() -> Settings:
    """Read the settings.

    Raises:
        SettingsRefused: one or more values are impossible, a name is misspelt, or the file is not there.
    """
    if misspelt := misspelt_variables(os.environ, _names()):
        raise SettingsRefused("; ".join(misspelt))
    for name in filter(None, os.environ.get(f"{PREFIX}CONFIG_FILE", "").split(":")):
        if not Path(name).is_file():
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE names a file that is not there: {name}")
        try:
            check_file(Path(name), _names())
        except ValueError as error:
            raise SettingsRefused(f"{PREFIX}CONFIG_FILE: {error}") from None
    try:
        loaders = typed_settings.default_loaders(
            "meetcore", config_files_var=f"{PREFIX}CONFIG_FILE", env_prefix=PREFIX
        )
        return typed_settings.load_settings(Settings, loaders, converter=_converter())
    except InvalidSettingsError as error:
        raise SettingsRefused("; ".join(_describe(each) for each in error.exceptions)) from None
    except TsError as error:
        raise SettingsRefused(
            f"{PREFIX}CONFIG_FILE cannot be read as settings: {type(error).__name__}"
        ) from None


def _converter() -> cattrs.Converter:
    """Read the types of the fields above; the library's default converter imports pydantic too (0.06 s)."""
    converter = cattrs.Converter()
    register_attrs_hook_factory(converter)
    register_secret_hook(converter)
    converter.register_structure_hook(bool, to_bool)
    return converter


def strange_variables() -> list[str]:
    """List the variables of the environment that begin with our prefix and are no setting."""
    return unknown_variables(os.environ, _names())


def _names() -> list[str]:
    return [attribute.name for attribute in attrs.fields(Settings)]


def _describe(error: BaseException) -> str:
    text = str(error)
    if option := _OPTION.search(text):
        kind = getattr(attrs.fields(Settings), option[1]).type
        return f"{PREFIX}{option[1].upper()} must be {_KINDS.get(kind, 'of another type')}"
    named = re.findall(rf"{PREFIX}\w+ must be [^\n]*", text)
    return "; ".join(named) or "the settings do not fit"
