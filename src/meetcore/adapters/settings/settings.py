"""What an operator can set, and what follows from it."""

from datetime import timedelta
from typing import Annotated

from attrs import define

from meetcore.adapters.settings import kinds, plugins
from meetcore.adapters.settings.names import PREFIX
from meetcore.adapters.settings.tiers import read_packages, read_tiers
from meetcore.domain.meetings.hosts import DEFAULT_SHARE_PERCENT
from meetcore.domain.meetings.sessions import DEFAULT_EMPTY_FOR
from meetcore.domain.members.sessions import PAGES_PER_MINUTE
from meetcore.domain.members.sign_in import SignUpMode
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.notes.notes import BY_RULES
from meetcore.domain.notes.recordings import RETENTION
from meetcore.domain.payments.packages import EXAMPLE_PACKAGES, PackageCatalogue
from meetcore.domain.requests.rate_window import Quotas
from meetcore.domain.webhooks.addresses import Network
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.domain.webhooks.retry_schedule import DEFAULT_DELAYS_S, NOTE_DELAYS_S, RetrySchedule
from meetcore.ports.plugins import SecretStr, SettingsRefused

__all__ = ["DEFAULT_BASE_URL", "Settings"]

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
# What a gateway cannot do without. Midtrans signs its notifications with the key of its API.
_GATEWAY_NEEDS = {
    "midtrans": ("payment_gateway_secret",),
    "xendit": ("payment_gateway_secret", "payment_gateway_webhook_secret"),
    "stripe": ("payment_gateway_secret", "payment_gateway_webhook_secret"),
}
# What a provider cannot do without, by the names of the settings.
_PROVIDER_NEEDS = {"zoom": ("zoom_account_id", "zoom_client_id", "zoom_client_secret")}
# A transcript of Zoom's comes minutes after the media; the sandbox's is there at once.
_TRANSCRIPT_WAIT_S = {"zoom": 30 * 60}
_NONE = SecretStr("")
_DELAYS = ",".join(map(str, DEFAULT_DELAYS_S))
_NOTE_DELAYS = ",".join(map(str, NOTE_DELAYS_S))


@define(field_transformer=kinds.from_annotations)
class Settings:
    """What an operator can set; each name is a variable with the prefix `MEETCORE_`.

    What is required and missing is refused with `SettingsRefused`, whose message names it.
    """

    database_url: kinds.DatabaseUrl = _NONE
    broker_url: kinds.BrokerUrl = _NONE
    broker_queues: Annotated[str, kinds.one_of("classic", "quorum")] = "classic"
    rate_counters: Annotated[str, plugins.RATE_COUNTERS.rule] = ""
    rate_store_url: kinds.RateStoreUrl = _NONE
    base_url: kinds.PublicOrigin = DEFAULT_BASE_URL
    key_prefix: kinds.KeyPrefix = "mk"
    provider: Annotated[str, plugins.PROVIDERS.rule] = "sandbox"
    jitsi_url: kinds.PublicOrigin = "https://meet.jit.si"
    zoom_account_id: kinds.Word = ""
    zoom_client_id: kinds.Word = ""
    zoom_client_secret: kinds.SecretWord = _NONE
    zoom_webhook_token: kinds.SecretWord = _NONE
    zoom_api_url: kinds.Origin = "https://api.zoom.us/v2"
    # Payments for credits. The gateway's own address, unless another one is named.
    payment_gateway: Annotated[str, plugins.GATEWAYS.rule] = "none"
    payment_gateway_secret: kinds.SecretWord = _NONE
    payment_gateway_webhook_secret: kinds.SecretWord = _NONE
    payment_gateway_url: kinds.OriginOrEmpty = ""
    support_contact: kinds.Contact = ""
    # Transcription and notes: an endpoint with OpenAI's API, or this machine, unless another is named.
    transcriber: Annotated[str, plugins.TRANSCRIBERS.rule] = ""
    writer: Annotated[str, plugins.WRITERS.rule] = ""
    ai_base_url: kinds.AiAddress = ""
    ai_api_key: kinds.SecretWord = _NONE
    ai_transcribe_model: kinds.ModelName = "whisper-1"
    ai_transcribe_format: Annotated[str, kinds.one_of("verbose_json", "json")] = "verbose_json"
    ai_spoken_language: kinds.SpokenLanguage = "note"
    ai_write_model: kinds.ModelName = "gpt-4o-mini"
    ai_context_chars: Annotated[int, kinds.at_least(8_000)] = 200_000
    ai_timeout_s: kinds.Positive = 120
    # Without a mail server no mail is written, unless another mailer is named.
    mailer: Annotated[str, plugins.MAILERS.rule] = ""
    smtp_url: kinds.SmtpUrl = _NONE
    mail_from: kinds.MailFrom = ""
    four_eyes_above: kinds.AtLeastZero = 0
    sign_up: Annotated[str, kinds.one_of(*SignUpMode)] = SignUpMode.CLOSED.value
    oidc_issuer: kinds.Issuer = ""
    oidc_client_id: kinds.Word = ""
    oidc_client_secret: kinds.SecretWord = _NONE
    console_oidc_issuer: kinds.Issuer = ""
    console_oidc_client_id: kinds.Word = ""
    console_oidc_client_secret: kinds.SecretWord = _NONE
    tiers_file: kinds.TiersFile = ""
    quota_read: kinds.Positive = Quotas().read
    quota_write: kinds.Positive = Quotas().write
    quota_credit: kinds.Positive = Quotas().credit
    quota_tool: kinds.Positive = Quotas().tool
    quota_page: kinds.Positive = PAGES_PER_MINUTE
    mcp: Annotated[str, kinds.one_of("everything", "booking", "off")] = "everything"
    home_page: bool = True
    sender: Annotated[str, plugins.SENDERS.rule] = "http"
    webhook_allowed_networks: kinds.PrivateNetworks = ""
    webhook_denied_networks: kinds.PublicNetworks = ""
    ca_file: kinds.Authorities = ""
    webhook_retry_schedule: kinds.Schedule = _DELAYS
    webhook_posts_per_host: kinds.Positive = 16
    webhook_posts_in_flight: kinds.Positive = 500
    connections: kinds.Positive = 1000
    drain_s: Annotated[int, kinds.from_to(0, 3_600)] = 5
    trusted_proxies: kinds.PrivateNetworks = ""
    # Of what other accounts left of the day's creations that the provider allows its hosts.
    account_creations_percent: kinds.Percent = DEFAULT_SHARE_PERCENT
    scratch_directory: kinds.Directory = ""
    # Of one processor, for each process that works on media. With less than 10 the limit of half an hour by
    # the clock would end what computes for the minutes that it may.
    media_cpu_percent: kinds.CpuPercent = 0
    pdf_fonts: kinds.FontFiles = ""
    recording_retention_days: Annotated[int, kinds.days(1)] = RETENTION.days
    # 0 keeps meetings and notes for good.
    meeting_retention_days: Annotated[int, kinds.days(0)] = 0
    note_retention_days: Annotated[int, kinds.days(0)] = 0
    # A delivery that is held or retried lasts some days, and a partition a week.
    event_retention_days: Annotated[int, kinds.days(14)] = EVENTS_KEPT.days
    notes_in_flight: kinds.Positive = 4
    note_retry_schedule: kinds.Schedule = _NOTE_DELAYS
    transcript_wait_s: kinds.SecondsOrEmpty = ""
    meeting_empty_for_s: kinds.Seconds = int(DEFAULT_EMPTY_FOR.total_seconds())
    secrets_key: SecretStr = _NONE
    # What `meetcore secrets derive` says has to be kept of keys that are removed from secrets_key.
    ledger_keys: SecretStr = _NONE
    room_key: SecretStr = _NONE
    database_pooler: Annotated[str, kinds.one_of("none", "transaction")] = "none"
    database_direct_url: kinds.DatabaseUrl = _NONE
    database_pool_size: kinds.Positive = 10
    # A standby that lists are read from.
    database_read_url: kinds.DatabaseUrl = _NONE
    database_timeout_s: Annotated[int, kinds.from_to(3, 3_600)] = 12
    verify_every: kinds.Duration = "24h"
    # Without a collector nothing is recorded.
    traces_url: kinds.TracesAddress = ""
    traces_headers: kinds.SecretFields = _NONE
    traces_sampled: kinds.Share = 0.01
    log_level: kinds.LogLevel = "info"

    @property
    def verify_every_s(self) -> int:
        """Seconds between two verifications of the ledger; 0 where it is not verified."""
        return kinds.duration_s(self.verify_every)

    @property
    def traces_header_fields(self) -> dict[str, str]:
        """The header fields of each batch for the collector of traces."""
        return kinds.fields(str(self.traces_headers))

    @property
    def catalogue(self) -> TierCatalogue:
        """The tiers on sale."""
        return read_tiers(self.tiers_file)

    @property
    def packages(self) -> PackageCatalogue:
        """The packages of credits on sale; at the sandbox's gateway examples, where none are named."""
        found = read_packages(self.tiers_file)
        is_empty = not found.packages and found.free is None
        return EXAMPLE_PACKAGES if is_empty and self.payment_gateway == "sandbox" else found

    @property
    def allowed_networks(self) -> tuple[Network, ...]:
        """Networks that webhooks may point into although they are not public."""
        return kinds.networks(self.webhook_allowed_networks)

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        """The networks of proxies whose `X-Forwarded-For` is trusted."""
        return kinds.networks(self.trusted_proxies)

    @property
    def denied_networks(self) -> tuple[Network, ...]:
        """Networks that no webhook goes to, the allowed ones included."""
        return kinds.networks(self.webhook_denied_networks)

    @property
    def retry_schedule(self) -> RetrySchedule:
        """The delays between attempts at a delivery."""
        return kinds.schedule(self.webhook_retry_schedule)

    @property
    def events_kept(self) -> timedelta:
        """How long events and deliveries are kept."""
        return timedelta(days=self.event_retention_days)

    @property
    def font_files(self) -> tuple[str, ...]:
        """Fonts for characters that the font of documents lacks."""
        return kinds.paths(self.pdf_fonts)

    @property
    def transcriber_name(self) -> str:
        """The name of the adapter that transcribes."""
        return self.transcriber or ("openai" if self.ai_base_url and self.ai_transcribe_model else "local")

    @property
    def writer_name(self) -> str:
        """The name of the adapter that writes notes."""
        return self.writer or ("openai" if self.ai_base_url and self.ai_write_model else BY_RULES)

    @property
    def mailer_name(self) -> str:
        """The name of the adapter that takes mails, or an empty text."""
        return self.mailer or ("smtp" if str(self.smtp_url) else "")

    @property
    def counters_name(self) -> str:
        """The name of the adapter that counts requests."""
        return self.rate_counters or ("redis" if str(self.rate_store_url) else "postgres")

    @property
    def note_writer(self) -> str:
        """The name of the model or of the adapter that writes notes, or `BY_RULES`."""
        return self.ai_write_model if self.writer_name == "openai" else self.writer_name

    @property
    def transcript_waited_s(self) -> int:
        """For how many seconds notes wait for a transcript of the video provider's."""
        return int(self.transcript_wait_s or _TRANSCRIPT_WAIT_S.get(self.provider, 0))

    @property
    def note_schedule(self) -> RetrySchedule:
        """The delays between tries of a note's step."""
        return kinds.schedule(self.note_retry_schedule)

    def require_database(self) -> str:
        """The database's address."""
        url = str(self.database_url)
        if not url:
            raise SettingsRefused(
                f"{PREFIX}DATABASE_URL is not set. Point it at a PostgreSQL 15 or newer, "
                "or run `meetcore dev`, which brings its own."
            )
        return str(url)

    @property
    def has_quorum_queues(self) -> bool:
        """Whether RabbitMQ keeps a copy of each queue on every node of its cluster."""
        return self.broker_queues == "quorum"

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler lends each transaction another connection to the database."""
        return self.database_pooler == "transaction"

    @property
    def direct_database(self) -> str | None:
        """The database's address for what needs a session of its own; `None` where only a pooler's is set."""
        return str(self.database_direct_url) or (None if self.is_pooled else self.require_database())

    def require_direct_database(self) -> str:
        """The database's address for what needs a session of its own."""
        direct = self.direct_database
        if direct is None:
            raise SettingsRefused(
                f"{PREFIX}DATABASE_DIRECT_URL is not set. Migrations hold locks of a session, which a pooler "
                "in transaction mode does not keep: name the database's own address."
            )
        return direct

    def require_provider(self) -> None:
        """Make sure that all required settings of the provider are set."""
        if names := self._lacking(_PROVIDER_NEEDS.get(self.provider, ())):
            raise SettingsRefused(f"MEETCORE_PROVIDER is {self.provider}, which needs {names} too.")

    def require_gateway(self) -> None:
        """Make sure that all required settings of the payment gateway are set."""
        if names := self._lacking(_GATEWAY_NEEDS.get(self.payment_gateway, ())):
            raise SettingsRefused(
                f"MEETCORE_PAYMENT_GATEWAY is {self.payment_gateway}, which needs {names} too."
            )

    def _lacking(self, needed: tuple[str, ...]) -> str:
        return ", ".join(f"{PREFIX}{name.upper()}" for name in needed if not str(getattr(self, name)))

    def require_ai(self) -> None:
        """Make sure that an AI endpoint's key, and the name of its adapter, come with its address."""
        for variable, name, model in (
            ("TRANSCRIBER", self.transcriber, self.ai_transcribe_model),
            ("WRITER", self.writer, self.ai_write_model),
        ):
            if name == "openai" and not (self.ai_base_url and model):
                raise SettingsRefused(
                    f"{PREFIX}{variable} is openai, which needs {PREFIX}AI_BASE_URL and a model too"
                )
        if str(self.ai_api_key) and not self.ai_base_url:
            raise SettingsRefused(
                f"{PREFIX}AI_API_KEY is set, and {PREFIX}AI_BASE_URL is not: say whose key it is, such as "
                "https://api.openai.com/v1"
            )

    def require_oidc(self) -> None:
        """Make sure that an OpenID provider comes with its client and the client's secret, or none does."""
        for prefix in ("oidc", "console_oidc"):
            names = [f"{prefix}_{each}" for each in ("issuer", "client_id", "client_secret")]
            lacking = [f"{PREFIX}{name.upper()}" for name in names if not str(getattr(self, name))]
            if 0 < len(lacking) < len(names):
                raise SettingsRefused(f"an OpenID provider needs {', '.join(lacking)} too")

    def require_counters(self) -> None:
        """Make sure that Redis comes with its address."""
        if self.counters_name == "redis" and not str(self.rate_store_url):
            raise SettingsRefused(f"{PREFIX}RATE_COUNTERS is redis, which needs {PREFIX}RATE_STORE_URL too")

    def require_mail(self) -> None:
        """Make sure that a mail server comes with its address, and with one that mails are from."""
        if self.mailer == "smtp" and not str(self.smtp_url):
            raise SettingsRefused(f"{PREFIX}MAILER is smtp, which needs {PREFIX}SMTP_URL too")
        if str(self.smtp_url) and not self.mail_from:
            raise SettingsRefused(
                f"{PREFIX}SMTP_URL is set, and {PREFIX}MAIL_FROM is not: say who mails are from, such as "
                "mail@example.com"
            )
