"""OAuth grants: redirect URIs, clients and their documents, authorizations."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Gone, NotFound, RateLimited
from meetcore.domain.requests import grants
from meetcore.domain.requests.keys import Scope

NOW = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)
CALLBACK = "https://agent.example/callback"
CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
DOCUMENT = "https://agent.example/oauth/client.json"


@pytest.mark.parametrize(("text", "normal"), [
    (CALLBACK, CALLBACK),
    ("https://Agent.Example:443/callback?x=1", "https://agent.example/callback?x=1"),
    ("https://agent.example", "https://agent.example/"),
    ("https://agent.example?x=1", "https://agent.example/?x=1"),
    ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000/cb"),
    ("http://[::1]:80/cb", "http://[::1]/cb"),
    ("http://localhost/cb", "http://localhost/cb"),
    (CURSOR, CURSOR),
    ("com.example.program:/cb", "com.example.program:/cb"),
    (f"https://a.example/{'x' * 982}", f"https://a.example/{'x' * 982}"),
    (f"cursor://{'x' * 991}", f"cursor://{'x' * 991}"),
])  # fmt: skip
def test_a_redirect_uri_has_one_normal_form(text: str, normal: str) -> None:
    assert grants.check_redirect_uri(text) == normal
    assert grants.check_redirect_uri(normal) == normal


@pytest.mark.parametrize("text", [
    "http://agent.example/cb", "https://agent.example/cb#x", "https://user@agent.example/", "cursor:cb",
    "cursor:/cb", f"{CURSOR}#x", f"{CURSOR}\n", "cursor://[::1]/cb", "program://cb", "javascript:alert(1)",
    "com.example.program:cb", "com.example.program:///cb", ".example:/cb", f"cursor://{'x' * 1000}",
    "https:///cb", "https://agent.example/\n", "https://agent.example/ä", "https://a;b/",
    "HTTPS://a.example/", "http://127.0.0.1.evil.example/", "https://agent.example\\@evil.example/",
    f"https://a.example/{'x' * 1000}",
])  # fmt: skip
def test_what_is_no_safe_redirect_uri_is_refused(text: str) -> None:
    with pytest.raises(grants.InvalidClient) as refused:
        grants.check_redirect_uri(text)
    assert str(refused.value) == (
        "a redirect URI is https, or http on 127.0.0.1, [::1] or localhost, or has a scheme like "
        "com.example.program, without a fragment"
    )


def test_a_redirect_uri_is_matched_whole_but_for_the_port_of_this_machine() -> None:
    here = "http://127.0.0.1:3000/cb"
    registered = (CALLBACK, here, "http://[::1]/cb")
    for uri in (*registered, "http://127.0.0.1:49152/cb", "http://127.0.0.1/cb", "http://[::1]:5/cb"):
        assert grants.is_registered(uri, registered), uri
    for uri in (
        f"{CALLBACK}/",
        f"{CALLBACK}?x=1",
        "https://agent.example:444/callback",
        "http://localhost/cb",
    ):
        assert not grants.is_registered(uri, registered), uri
    assert not grants.is_registered(here, (CALLBACK,))
    assert not grants.is_registered("http://127.0.0.1/a:6/cb", ("http://127.0.0.1/a:5/cb",)), "a path"
    assert grants.is_registered(CURSOR, (CALLBACK, CURSOR))
    assert not grants.is_registered(f"{CURSOR}/x", (CURSOR,))


def test_an_answer_is_added_to_the_query_of_a_redirect_uri() -> None:
    assert grants.redirection(CALLBACK, code="a b", state=None) == f"{CALLBACK}?code=a+b"
    assert grants.redirection(f"{CALLBACK}?x=1", code="a") == f"{CALLBACK}?x=1&code=a"


@pytest.mark.parametrize(("uri", "origin", "place", "is_here"), [
    ("http://127.0.0.1:3000/cb?x=1", "http://127.0.0.1:3000", "127.0.0.1:3000", True),
    (CALLBACK, "https://agent.example", "agent.example", False),
    (CURSOR, "cursor:", "cursor", True),
    ("com.example.program:/cb", "com.example.program:", "com.example.program", True),
])  # fmt: skip
def test_a_redirect_uri_is_shown_by_its_place(uri: str, origin: str, place: str, is_here: bool) -> None:
    assert grants.origin_of(uri) == origin
    assert grants.place_of(origin) == place
    assert grants.is_on_this_machine(origin) is is_here


def test_a_client_has_a_name_of_one_line_or_that_of_its_address() -> None:
    client = grants.new_client("c", " Agent\n\u202eX ", [CALLBACK, CALLBACK], NOW)
    assert client == grants.OAuthClient("c", "AgentX", (CALLBACK,), NOW)
    for name in (None, "", "\n", 5):
        assert grants.new_client("c", name, [CALLBACK], NOW).name == "agent.example"
    assert grants.new_client("c", "x" * 61, [CALLBACK] * 10, NOW).name == "x" * 60


@pytest.mark.parametrize(("uris", "reason"), [
    *((uris, "redirect_uris has 1 to 10 URIs") for uris in (None, [], [CALLBACK] * 11, {"a": 1})),
    *((uris, "a redirect URI is ") for uris in ([CALLBACK, "x"], [5])),
])  # fmt: skip
def test_a_client_has_one_to_ten_redirect_uris(uris: object, reason: str) -> None:
    with pytest.raises(grants.InvalidClient, match=f"^{reason}"):
        grants.new_client("c", "Agent", uris, NOW)


def test_the_url_of_a_document_has_a_path_and_nothing_behind_it() -> None:
    found = grants.document_url(DOCUMENT)
    assert found is not None
    assert found.text == DOCUMENT
    for text in (
        "c", "http://agent.example/c", "https://agent.example", "https://agent.example/", f"{DOCUMENT}?x=1",
        f"{DOCUMENT}#x", "https://agent.example/a/../c", "https://agent.example/a/./c",
        "https://u@agent.example/c", f"{DOCUMENT}?", "https://agent.example:8443/c",
    ):  # fmt: skip
        assert grants.document_url(text) is None, text


def test_a_document_names_its_own_url() -> None:
    document = {"client_id": DOCUMENT, "client_name": "Agent", "redirect_uris": [CALLBACK]}
    client = grants.read_document(DOCUMENT, json.dumps(document).encode(), NOW)
    assert client == grants.OAuthClient(DOCUMENT, "Agent", (CALLBACK,), NOW, NOW)
    of_another = "the document is no JSON object whose client_id is its own URL"
    for body, reason in (
        (b"", of_another), (b"[]", of_another), (b"[" * 100_000, of_another),
        (json.dumps(document | {"client_id": CALLBACK}).encode(), of_another),
        (json.dumps(document | {"client_secret": "x"}).encode(), "the document holds a secret"),
        (json.dumps(document | {"redirect_uris": "x"}).encode(), "a redirect URI is .*"),
    ):  # fmt: skip
        with pytest.raises(grants.InvalidClient, match=f"^{reason}$"):
            grants.read_document(DOCUMENT, body, NOW)


def test_a_request_is_answered_once_and_in_time() -> None:
    asked = grants.Authorization(UUID(int=1), "c", CALLBACK, None, "x" * 43, (), NOW)
    before = NOW - timedelta(seconds=1)
    assert grants.check_open(asked, before) is asked
    for one, now in ((asked, NOW), (evolve(asked, key_id=UUID(int=2)), before)):
        with pytest.raises(
            Gone, match=r"^The request was answered, or has expired\. Connect the program again\.$"
        ):
            grants.check_open(one, now)
    with pytest.raises(NotFound, match=r"^No request with this id\.$"):
        grants.check_open(None, before)


def test_challenges_and_states_have_a_form_and_unknown_scopes_are_ignored() -> None:
    assert grants.is_challenge("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
    assert not grants.is_challenge("x" * 42)
    assert not grants.is_challenge("x" * 42 + "=")
    assert grants.is_state("s t&=1" + "x" * 1994)
    assert not grants.is_state("x" * 2001)
    assert not grants.is_state("\0")
    wanted = ["openid", "notulen:read", "meetings:read"]
    assert grants.known_scopes(wanted) == (Scope.MEETINGS_READ, Scope.NOTULEN_READ)


def test_each_act_is_counted_by_address_and_in_all() -> None:
    ids = {grants.counter(act, address) for act in grants.Act for address in ("10.0.0.1", "10.0.0.2", None)}
    assert len(ids | {grants.counter_of_all(act) for act in grants.Act}) == 16
    assert grants.counter(grants.Act.TOKEN, "fd00::1") == grants.counter(grants.Act.TOKEN, "fd00::2")
    grants.check_count(30, 30, NOW)
    with pytest.raises(RateLimited, match=r"^Too many requests of clients\. Wait some minutes\.$"):
        grants.check_count(31, 30, NOW)
