"""Every route of the dashboard and of the console, with the roles that it is open to.

One with `fresh` asks for a sign-in of the last minutes.
"""

from __future__ import annotations

from collections.abc import Iterable

from meetcore.adapters.web.console.routes import PAGES as CONSOLE_PAGES
from meetcore.adapters.web.routes import PAGES
from meetcore.adapters.web.visit import ConsolePage, Page
from meetcore.domain.members.roles import OPERATORS_ALLOWED, OperatorRole, Role, is_allowed
from tests.support.visitors import BY_TOKEN, Visitors, web_routes

MEMBERS = """
GET  /dashboard                                                    owner developer finance viewer
GET  /dashboard/meetings                                           owner developer viewer
GET  /dashboard/meetings/new                                       owner developer
POST /dashboard/meetings                                           owner developer
GET  /dashboard/meetings/{id}                                      owner developer viewer
GET  /dashboard/meetings/{id}.ics                                  owner developer viewer
POST /dashboard/meetings/{id}/cancel                               owner developer
POST /dashboard/meetings/{id}/notes                                owner developer
GET  /dashboard/notes                                              owner developer viewer
GET  /dashboard/notes/{id}                                         owner developer viewer
GET  /dashboard/notes/{id}/edit                                    owner developer
POST /dashboard/notes/{id}/edit                                    owner developer
GET  /dashboard/notes/{id}.md                                      owner developer viewer
GET  /dashboard/notes/{id}.pdf                                     owner developer viewer
GET  /dashboard/credits                                            owner developer finance viewer
POST /dashboard/credits                                            owner finance
POST /dashboard/credits/billing                                    owner finance
GET  /dashboard/credits/{id}                                       owner developer finance viewer
GET  /dashboard/credits/{id}/receipt.pdf                           owner finance
GET  /dashboard/ledger                                             owner developer finance viewer
GET  /dashboard/ledger.csv                                         owner developer finance viewer
GET  /dashboard/spending                                           owner developer finance viewer
GET  /dashboard/statements/{month}                                 owner finance
GET  /dashboard/statements/{month}.csv                             owner finance
GET  /dashboard/statements/{month}.pdf                             owner finance
GET  /dashboard/keys                                               owner developer finance viewer
GET  /dashboard/keys/new                                           owner developer fresh
POST /dashboard/keys                                               owner developer fresh
POST /dashboard/keys/{id}/cap                                      owner finance fresh
POST /dashboard/keys/{id}/roll                                     owner developer fresh
POST /dashboard/keys/{id}/revoke                                   owner developer fresh
GET  /dashboard/connect/{id}                                       owner developer fresh
POST /dashboard/connect/{id}                                       owner developer fresh
GET  /dashboard/playground                                         owner developer
GET  /dashboard/playground/{operation}                             owner developer
POST /dashboard/playground/{operation}                             owner developer
POST /dashboard/playground/{operation}/key                         owner developer fresh
GET  /dashboard/webhooks                                           owner developer viewer
GET  /dashboard/webhooks/events                                    owner developer viewer
GET  /dashboard/webhooks/new                                       owner developer fresh
POST /dashboard/webhooks                                           owner developer fresh
GET  /dashboard/webhooks/{id}                                      owner developer viewer
GET  /dashboard/webhooks/{id}/edit                                 owner developer
POST /dashboard/webhooks/{id}/edit                                 owner developer
POST /dashboard/webhooks/{id}/change                               owner developer
POST /dashboard/webhooks/{id}/recover                              owner developer
POST /dashboard/webhooks/{id}/remove                               owner developer
POST /dashboard/webhooks/{id}/rotate                               owner developer fresh
POST /dashboard/webhooks/{id}/secret                               owner developer fresh
POST /dashboard/webhooks/{id}/test                                 owner developer
GET  /dashboard/webhooks/{id}/deliveries/{delivery_id}             owner developer viewer
POST /dashboard/webhooks/{id}/deliveries/{delivery_id}/resend      owner developer
GET  /dashboard/requests                                           owner developer viewer
GET  /dashboard/requests/{id}                                      owner developer viewer
GET  /dashboard/team                                               owner developer finance
POST /dashboard/team/invitations                                   owner fresh
POST /dashboard/team/invitations/{id}/revoke                       owner
POST /dashboard/team/{id}/remove                                   owner fresh
POST /dashboard/team/{id}/role                                     owner fresh
GET  /dashboard/settings                                           owner developer finance viewer
POST /dashboard/settings/statement-mails                           owner finance
POST /dashboard/settings/export                                    owner fresh
POST /dashboard/settings/erase                                     owner fresh
POST /dashboard/settings/threshold                                 owner finance
POST /dashboard/settings/language                                  owner developer finance viewer
POST /dashboard/settings/mails                                     owner developer finance viewer
POST /dashboard/settings/name                                      owner developer finance viewer
POST /dashboard/settings/sessions/{id}/end                         owner developer finance viewer
POST /dashboard/settings/sessions/end-others                       owner developer finance viewer
GET  /dashboard/audit                                              owner
GET  /dashboard/accounts                                           owner developer finance viewer
POST /dashboard/accounts/{id}/enter                                owner developer finance viewer
GET  /dashboard/passkeys                                           owner developer finance viewer
POST /dashboard/passkeys                                           owner developer finance viewer fresh
POST /dashboard/passkeys/options                                   owner developer finance viewer fresh
POST /dashboard/passkeys/{id}/remove                               owner developer finance viewer fresh
"""

OPERATORS = """
GET  /console                                                      admin finance support
GET  /console/accounts                                             admin finance support
POST /console/accounts                                             admin finance support
GET  /console/accounts/{id}                                        admin finance support
POST /console/accounts/{id}/adjust                                 admin finance fresh
POST /console/accounts/{id}/top-up                                 admin finance fresh
POST /console/accounts/{id}/suspend                                admin fresh
POST /console/accounts/{id}/resume                                 admin fresh
POST /console/accounts/{id}/view                                   admin support fresh
GET  /console/hosts                                                admin support
POST /console/hosts/{id}/enable                                    admin
POST /console/hosts/{id}/disable                                   admin
GET  /console/doubts                                               admin support
POST /console/doubts/{id}/{meeting_id}/finish                      admin support fresh
POST /console/doubts/{id}/{meeting_id}/undo                        admin support fresh
GET  /console/audit                                                admin finance support
GET  /console/passkeys                                             admin finance support
POST /console/passkeys                                             admin finance support fresh
POST /console/passkeys/options                                     admin finance support fresh
POST /console/passkeys/{id}/remove                                 admin finance support fresh
GET  /console/sessions                                             admin finance support
POST /console/sessions/{id}/end                                    admin finance support
POST /console/sessions/end-others                                  admin finance support
GET  /console/liability                                            admin finance
GET  /console/liability.csv                                        admin finance
GET  /console/income.csv                                           admin finance
GET  /console/payments                                             admin finance support
GET  /console/payments/{id}                                        admin finance support
POST /console/payments/{id}/accept                                 admin finance fresh
POST /console/payments/{id}/dismiss                                admin finance fresh
POST /console/payments/{id}/refund                                 admin finance fresh
GET  /console/health                                               admin finance support
GET  /console/prices                                               admin finance support
GET  /console/proposals                                            admin finance
POST /console/proposals/{proposal_id}/approve                      admin finance fresh
POST /console/proposals/{proposal_id}/reject                       admin finance fresh
"""

EVERYONE = """
GET  /
GET  /dashboard/assets/{digest}/{name}
GET  /dashboard/{rest:path}
GET  /console/{rest:path}
GET  /dashboard/sign-in
POST /dashboard/sign-in
GET  /dashboard/sign-in/{token}
POST /dashboard/sign-in/{token}
GET  /dashboard/sign-in/oidc
GET  /dashboard/sign-in/oidc/callback
POST /dashboard/sign-in/passkey
POST /dashboard/sign-in/passkey/options
GET  /dashboard/sign-up
POST /dashboard/sign-up
GET  /dashboard/sign-up/{token}
POST /dashboard/sign-up/{token}
POST /dashboard/sign-out
POST /dashboard/language
GET  /console/sign-in
POST /console/sign-in
GET  /console/sign-in/{token}
POST /console/sign-in/{token}
GET  /console/sign-in/oidc
GET  /console/sign-in/oidc/callback
POST /console/sign-in/passkey
POST /console/sign-in/passkey/options
POST /console/sign-out
POST /console/language
"""

Table = dict[tuple[str, str], set[str]]


def read(lines: str) -> Table:
    """A table of the text: the roles, and `fresh`, by method and path."""
    rows = [line.split() for line in lines.strip().splitlines()]
    return {(method, path): set(roles) for method, path, *roles in rows}


def marks(page: Page | ConsolePage, roles: Iterable[Role | OperatorRole]) -> set[str]:
    return {*(role.value for role in roles), *(["fresh"] if page.needs_fresh else ())}


def test_a_page_of_the_dashboard_is_open_to_the_roles_of_its_line() -> None:
    allowed = {
        (page.method, page.path): marks(page, [role for role in Role if is_allowed(role, page.action)])
        for page in PAGES
    }
    assert allowed == read(MEMBERS)


def test_a_page_of_the_console_is_open_to_the_roles_of_its_line() -> None:
    allowed = {
        (page.method, page.path): marks(
            page, [role for role in OperatorRole if page.action in OPERATORS_ALLOWED[role]]
        )
        for page in CONSOLE_PAGES
    }
    assert allowed == read(OPERATORS)


async def test_every_route_has_a_line(visitors: Visitors) -> None:
    listed = {*read(MEMBERS), *read(OPERATORS), *read(EVERYONE)}
    served = {
        (method, route.path) for route in visitors.routes() for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == listed
    paths = {route.path for route in web_routes(visitors.application)}
    assert paths == {path for _method, path in listed} | BY_TOKEN
