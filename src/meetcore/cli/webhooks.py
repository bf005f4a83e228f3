"""`meetcore webhook`: endpoints that failures disabled."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter

from meetcore.cli import inputs, output, runner
from meetcore.composition.application import Application
from meetcore.domain.fields import shown_fields
from meetcore.domain.webhooks.endpoints import Endpoint

webhook = App(name="webhook", help="Webhook endpoints of all accounts.")


@webhook.command(name="enable")
def enable_webhooks(
    *,
    disabled_since: str,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    json: inputs.Json = False,
) -> None:
    """Make every endpoint active again that failures disabled; what was held for it is delivered.

    Parameters
    ----------
    disabled_since:
        Those that were disabled at this time or later.
    dry_run:
        List them, and change nothing.
    """
    since = inputs.read_time(disabled_since, "--disabled-since")
    assert since is not None

    async def work(application: Application) -> Sequence[Endpoint]:
        endpoints = application.administration.webhooks
        return await endpoints.list_disabled(since) if dry_run else await endpoints.enable(since)

    found = runner.with_application(work, as_json=json)
    for each in () if dry_run else found:
        runner.log_action("webhook enable", {"id": str(each.id), "account_id": str(each.account_id)})
    output.show(
        [shown_fields(each, "id", "account_id", "host", "state", "disabled_at") for each in found],
        as_json=json,
    )
