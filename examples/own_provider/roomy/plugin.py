"""The plugin: its settings, how it is opened and checked, and the webhooks of Roomy."""

import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import field, frozen, validators

from meetcore.domain.meetings.provider_events import ProviderEvent, ProviderEventKind
from meetcore.ports.plugins import Context, ProviderPlugin, SecretStr, SettingsRefused
from meetcore.ports.video_provider import (
    ProviderRefused,
    ProviderUnknown,
    ProviderWebhook,
    SignatureInvalid,
    WebhookMalformed,
    WebhookParser,
)
from roomy.provider import RoomyProvider

NO_SECRET = SecretStr("")


@frozen
class RoomySettings:
    """`MEETCORE_ROOMY_URL`, `MEETCORE_ROOMY_TOKEN` and `MEETCORE_ROOMY_WEBHOOK_SECRET`."""

    roomy_url: str = field(validator=validators.matches_re(r"https?://[^/?#\s]+"))
    roomy_token: SecretStr
    roomy_webhook_secret: SecretStr = NO_SECRET


def open_provider(context: Context[RoomySettings]) -> RoomyProvider:
    """Open the provider; it connects with its first call."""
    provider = RoomyProvider(context.settings.roomy_url, context.settings.roomy_token, context.tracing)
    context.stack.push_async_callback(provider.aclose)
    return provider


async def check(context: Context[RoomySettings]) -> str:
    """Ask whose token it is, for `meetcore doctor`."""
    try:
        owner = await open_provider(context).owner()
    except ProviderRefused as error:
        raise SettingsRefused(f"{error}: check MEETCORE_ROOMY_TOKEN") from error
    except ProviderUnknown as error:
        raise SettingsRefused(f"{error}: check MEETCORE_ROOMY_URL") from error
    return f"roomy lets us in as {owner}"


def webhook_parser(settings: RoomySettings) -> WebhookParser | None:
    """Return the parser of what Roomy posts to /provider-events/roomy."""
    secret = settings.roomy_webhook_secret.encode()

    def parse(body: bytes, headers: Mapping[str, str], now: datetime) -> ProviderWebhook:
        signature = hmac.digest(secret, body, "sha256").hex()
        if not hmac.compare_digest(signature.encode(), headers.get("x-roomy-signature", "").encode()):
            raise SignatureInvalid
        try:
            return ProviderWebhook(_read(json.loads(body)))
        except (ValueError, KeyError, TypeError) as error:
            raise WebhookMalformed from error

    return parse if secret else None


def _read(event: Mapping[str, Any]) -> ProviderEvent | None:
    if event["type"] != "room.closed":
        return None
    happened_at = datetime.fromisoformat(event["at"])
    if happened_at.tzinfo is None:
        raise ValueError("an instant without a zone")
    return ProviderEvent("roomy", ProviderEventKind.MEETING_CLOSED, str(event["room"]), happened_at)


ROOMY = ProviderPlugin(open_provider, RoomySettings, check, webhook_parser=webhook_parser)
