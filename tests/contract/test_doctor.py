"""`meetcore.composition.doctor`: each check against a real server that is right, wrong, silent or away."""

from __future__ import annotations

import asyncio
import socket
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
import pytest

from meetcore.adapters.postgres.migrate import MigrationRefused, load_migrations, migrate
from meetcore.adapters.postgres.partitions import AHEAD, PostgresPartitions
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.adapters.settings import SecretStr, Settings
from meetcore.adapters.webhook_sender.resolver import answers_lookups
from meetcore.composition.doctor import run_checks
from meetcore.domain.webhooks.events import EVENTS_KEPT
from meetcore.ports.figures import CheckResult, HealthStatus
from meetcore.testing.ai_manners import MANNERS
from meetcore.testing.ai_server import AiStandIn, Fault, Models, ai_stand_in
from meetcore.testing.gateway_stand_in import GatewayStandIn
from meetcore.testing.midtrans_server import midtrans_stand_in
from meetcore.testing.receiver import Authority
from meetcore.testing.stand_in import Reply, Request, as_json, serving
from meetcore.testing.stripe_server import stripe_stand_in
from meetcore.testing.xendit_server import xendit_stand_in
from meetcore.testing.zoom_server import ZoomStandIn, zoom_stand_in
from tests.support import servers
from tests.support.collector import collecting
from tests.support.mail_server import PASSWORD, USER, mail_server
from tests.support.openid_provider import CLIENT_SECRET, openid_provider
from tests.support.postgres_rig import PostgresRig
from tests.support.program import SECRETS_KEY, free_port
from tests.support.running_time import running_time
from tests.support.texts import assert_contains
from tests.support.transactions import new_endpoint, open_customer, register

SECRET = "hunter2"
SECRET_SETTINGS = (
    "secrets_key", "broker_url", "rate_store_url", "ai_api_key", "zoom_client_secret", "smtp_url",
    "traces_headers", "payment_gateway_secret", "payment_gateway_webhook_secret",
)  # fmt: skip
OK, WARNING, FAILED, SKIPPED = HealthStatus


@pytest.fixture(scope="module")
def database(postgres_server_url: str) -> Iterator[str]:
    with servers.migrated_database(postgres_server_url) as url:
        yield url


def checked(database: str, deadline_s: float = 10, **settings: Any) -> dict[str, CheckResult]:
    """Return the outcomes, of which none shows a secret or an address."""
    secret: dict[str, Any] = {"database_url": database, "secrets_key": SECRETS_KEY} | {
        name: settings.pop(name) for name in SECRET_SETTINGS if name in settings
    }
    secret = {name: SecretStr(text) for name, text in secret.items()}
    results = run_checks(Settings(**secret, **settings), deadline_s)
    for result in results.values():
        assert_contains(result.message, absent=(SECRET, "127.0.0.1", "\n"))
    return results


def assert_says(found: CheckResult, status: HealthStatus, text: str) -> None:
    """Check an outcome by its status and by a text in its sentence."""
    assert (found.status, text in found.message) == (status, True), found


@contextmanager
def silent() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_a_whole_service_is_found_whole(database: str, redis_url: str) -> None:
    async def ok(_: Request) -> Reply:
        return as_json("ok")

    async with serving(ok) as port:
        settings: dict[str, Any] = {
            "broker_url": redis_url,
            "rate_store_url": redis_url,
            "base_url": f"http://127.0.0.1:{port}",
        }
        results = await asyncio.to_thread(checked, database, **settings)
    statuses = {name: result.status for name, result in results.items()}
    assert statuses.pop("role") in (OK, WARNING)  # the tests' own role owns the tables
    assert statuses.pop("durability") in (OK, FAILED)  # a server for tests may do without
    assert statuses.pop("partitions") is WARNING  # no worker has run
    assert statuses.pop("outbound") in (OK, FAILED)  # a machine for tests may have no name server
    assert statuses.pop("mail") is WARNING  # none is set; with a server: test_a_login_at_the_mail_server...
    assert set(statuses) == {
        "database", "writable", "schema", "clock", "pooler", "standby", "sealed", "meetings", "recordings",
        "hosts",
        "broker", "rate_store", "provider", "ai", "gateway", "oidc", "traces", "base_url", "secrets",
        "settings",
    }  # fmt: skip
    assert set(statuses.values()) == {OK}, results


def test_meetings_that_run_beyond_their_end_are_counted(database: str) -> None:
    assert checked(database)["meetings"].status is OK
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(_RUNS_BEYOND_ITS_END)
    found = checked(database)["meetings"]
    assert (found.status, found.message[:10]) == (WARNING, "1 are over")


_RUNS_BEYOND_ITS_END = """
INSERT INTO meetings (account_id, id, api_key_id, status, title, start_at, end_at, duration, pricing_tier_id,
    credits, with_recording, auto_notulen, must_login, mic_off, email_notification, provider, created_at,
    due_at)
VALUES (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'ended', 'x', now() - interval '2 hours',
    now() - interval '1 hour', 60, 'x', 1, false, false, false, false, false, 'zoom', now(), now())
"""


def test_deleted_recordings_that_the_provider_keeps_are_counted(postgres_server_url: str) -> None:
    with servers.migrated_database(postgres_server_url) as url:
        assert checked(url)["recordings"].status is OK
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")  # without its account
            connection.execute(
                "INSERT INTO recordings (account_id, id, meeting_id, status, files, recorded_at, created_at, "
                "provider, provider_meeting_id, expires_at, due_at, tries) SELECT gen_random_uuid(), "
                "gen_random_uuid(), gen_random_uuid(), 'expired', '', now(), now(), 'zoom', '1', now(), "
                "now(), tries FROM generate_series(1, 5) AS tries"
            )
        found = checked(url)["recordings"]
    assert (found.status, found.message.partition(" ")[0]) == (FAILED, "2")
    assert "scopes" in found.message


def test_partitions_ahead_are_counted_and_the_remedy_is_named(postgres_server_url: str) -> None:
    with servers.migrated_database(postgres_server_url) as url:
        assert_says(checked(url)["partitions"], WARNING, "start a worker")
        asyncio.run(PostgresPartitions(url).maintain(datetime.now(UTC), EVENTS_KEPT))
        after = checked(url)["partitions"]
        assert (after.status, after.message) == (OK, f"{AHEAD} ahead")
        with psycopg.connect(url, autocommit=True) as operator:
            last = "SELECT max(relname) FROM pg_class WHERE relname ~ '^deliveries_[0-9]+$'"
            [[name]] = operator.execute(last).fetchall()
            operator.execute(f"ALTER TABLE deliveries DETACH PARTITION {name}".encode())
        assert_says(checked(url)["partitions"], FAILED, "a partition of deliveries was taken out")


def test_an_unavailable_database_fails_once_and_the_other_checks_still_run(redis_url: str) -> None:
    port = free_port()
    results = checked(f"postgresql://u:{SECRET}@127.0.0.1:{port}/d", broker_url=redis_url)
    assert_says(results["database"], FAILED, "MEETCORE_DATABASE_URL")
    assert {
        results[name].status for name in ("writable", "schema", "durability", "role", "clock", "sealed")
    } == {SKIPPED}
    assert results["broker"].status is OK
    assert "MEETCORE_DATABASE_URL is not set" in checked("")["database"].message


def test_servers_that_never_answer_end_at_the_deadline() -> None:
    with silent() as port, running_time() as passed_s:
        results = checked(
            f"postgresql://u:{SECRET}@127.0.0.1:{port}/d", 1.0,
            broker_url=f"amqp://u:{SECRET}@127.0.0.1:{port}/", rate_store_url=f"redis://:{SECRET}@127.0.0.1:{port}/0",
            ai_base_url=f"http://127.0.0.1:{port}/v1", base_url=f"http://127.0.0.1:{port}",
        )  # fmt: skip
        assert passed_s() < 5
    for name in ("database", "broker", "rate_store", "ai", "base_url"):
        assert (results[name].status, "within 1 s" in results[name].message) == (FAILED, True), name
    assert results["secrets"].status is OK


def test_unavailable_servers_come_with_a_remedy(database: str, redis_url: str) -> None:
    port = free_port()
    results = checked(
        database, broker_url=f"amqp://u:{SECRET}@127.0.0.1:{port}/", base_url=f"http://127.0.0.1:{port}",
        rate_store_url=f"{redis_url};redis://:{SECRET}@127.0.0.1:{port}/0", ai_base_url=f"http://127.0.0.1:{port}",
    )  # fmt: skip
    assert (results["broker"].status, results["ai"].status) == (FAILED, FAILED)
    assert "MEETCORE_BROKER_URL" in results["broker"].message
    assert "1 of 2" in results["rate_store"].message
    assert (results["rate_store"].status, results["base_url"].status) == (WARNING, WARNING)


@contextmanager
def altered_role(database: str, setting: str) -> Iterator[str]:
    """The database by a role of its own that has this setting; it owns nothing and may do nothing."""
    role = f"doctor_{uuid4().hex[:8]}"
    servers.skip_without_roles(database)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'".encode())
        connection.execute(f"ALTER ROLE {role} SET {setting}".encode())
        try:
            place = database.rpartition("@")[2]
            yield f"postgresql://{role}:{SECRET}@{place}"
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


@pytest.mark.parametrize(
    ("setting", "check", "expected_text"),
    [
        ("default_transaction_read_only = on", "writable", "read-only"),
        ("synchronous_commit = off", "durability", "synchronous_commit is off"),
        ("default_transaction_isolation = 'serializable'", "role", "default_transaction_isolation"),
        ("client_min_messages = 'notice'", "role", "lacks privileges on account"),
    ],
)
def test_a_role_that_does_not_do(database: str, setting: str, check: str, expected_text: str) -> None:
    with altered_role(database, setting) as url:
        result = checked(url)[check]
    assert result.status is FAILED
    assert expected_text in result.message


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    monkeypatch.setenv("MEETCORE_QUOTA_READS", "7")
    result = checked(database)["settings"]
    assert_says(result, WARNING, "MEETCORE_QUOTA_READS")


def test_a_database_in_another_encoding_is_refused_in_one_sentence(postgres_server_url: str) -> None:
    with servers.fresh_database(postgres_server_url, encoding="SQL_ASCII") as url:
        result = checked(url)["database"]
        assert_says(result, FAILED, "the database is in SQL_ASCII")
        with pytest.raises(MigrationRefused, match="ENCODING 'UTF8'"):
            migrate(url)
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            assert found.fetchone() == (0,)


def test_a_role_of_its_own_leaves_partitions_and_the_activity_of_others_to_the_owner(
    postgres_server_url: str,
) -> None:
    servers.skip_without_roles(postgres_server_url)
    with servers.migrated_database(postgres_server_url) as url, servers.service_role(url) as service_url:
        results = checked(service_url)
        assert_says(results["role"], WARNING, "GRANT pg_read_all_stats")
        assert "have the owner of the tables run `meetcore partitions`" in results["partitions"].message
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"GRANT pg_read_all_stats TO {urlsplit(service_url).username}".encode())
        assert checked(service_url)["role"].status is OK


def test_a_schema_of_another_release(empty_database_url: str) -> None:
    assert_says(checked(empty_database_url)["schema"], FAILED, "meetcore migrate")
    migrate(empty_database_url)
    number = load_migrations()[-1].number + 1
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (%s, 'of tomorrow', '')", (number,))
    assert_says(checked(empty_database_url)["schema"], FAILED, "too new for this release")


@pytest.mark.parametrize(("ahead_s", "status"), [(-60, FAILED), (60, FAILED), (0, OK)])
def test_clocks_that_differ(empty_database_url: str, ahead_s: int, status: HealthStatus) -> None:
    """The server's clock cannot be set here: a function of the same name, found first, stands for it."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
            f"'SELECT pg_catalog.clock_timestamp() + interval ''{ahead_s} seconds'''".encode()
        )
        (name,) = connection.execute("SELECT current_database()").fetchone() or ("",)
        connection.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog".encode())
    result = checked(empty_database_url)["clock"]
    assert result.status is status, result
    assert status is OK or "60 s apart" in result.message


async def sealed_webhook(database: str, key: bytes) -> None:
    """A webhook whose secret is sealed under this key."""
    pool = make_pool(database, max_size=2)
    await pool.open()
    try:
        rig = PostgresRig(pool, AesGcmCipher((key,)))
        await register(rig, new_endpoint(await open_customer(rig)))
    finally:
        await pool.close()


def test_secrets_that_open_and_those_that_do_not(database: str) -> None:
    key, other = bytes(range(32)), bytes(32)
    asyncio.run(sealed_webhook(database, key))
    assert checked(database)["sealed"].status is OK
    wrong = checked(database, secrets_key=urlsafe_b64encode(other).decode())
    assert (wrong["sealed"].status, wrong["secrets"].status) == (FAILED, OK)
    missing = checked(database, secrets_key="")
    assert (missing["sealed"].status, missing["secrets"].status) == (SKIPPED, FAILED)
    assert "python -c" in missing["secrets"].message


def test_values_under_an_old_key_are_named_until_they_are_resealed(database: str) -> None:
    old, new, third = bytes(range(1, 33)), bytes(range(2, 34)), bytes(range(3, 35))
    asyncio.run(sealed_webhook(database, old))
    texts = [urlsafe_b64encode(key).decode() for key in (bytes(range(32)), old, new, third)]
    assert_says(
        checked(database, secrets_key=",".join((texts[2], texts[0], texts[1])))["sealed"],
        WARNING,
        "meetcore secrets reseal",
    )
    asyncio.run(sealed_webhook(database, third))
    assert_says(checked(database, secrets_key=",".join((texts[3], texts[0])))["sealed"], FAILED, "put back")


def access_to(zoom: ZoomStandIn) -> dict[str, Any]:
    return {
        "provider": "zoom", "zoom_api_url": zoom.api_url,
        "zoom_account_id": zoom.credentials.account_id, "zoom_client_id": zoom.credentials.client_id,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lost", "status"),
    [
        ("cloud_recording:delete:recording_file:admin", FAILED),
        ("meeting:read:list_past_instances:admin", FAILED),
        ("user:read:user:admin", OK),  # which no call of ours needs
    ],
)
async def test_scopes_that_the_zoom_application_lacks_are_named(
    database: str, lost: str, status: HealthStatus
) -> None:
    async with zoom_stand_in() as zoom:
        settings = access_to(zoom) | {"zoom_client_secret": zoom.credentials.client_secret}
        zoom.terms.scopes = zoom.terms.scopes.replace(lost, "")
        found = (await asyncio.to_thread(checked, database, **settings))["provider"]
        assert (found.status, lost in found.message) == (status, status is FAILED), found
        zoom.terms.scopes = (
            "meeting:write:admin meeting:read:admin user:write:admin user:read:admin recording:write:admin "
            "recording:read:admin"
        )
        assert (await asyncio.to_thread(checked, database, **settings))["provider"].status is OK
        zoom.terms.scopes = ""
        assert (await asyncio.to_thread(checked, database, **settings))["provider"].status is WARNING


async def test_settings_of_licensed_users_that_recordings_and_guests_need_are_named(
    postgres_server_url: str,
) -> None:
    async with zoom_stand_in() as zoom:
        settings = access_to(zoom) | {"zoom_client_secret": zoom.credentials.client_secret}
        with servers.migrated_database(postgres_server_url) as url:

            async def hosts() -> CheckResult:
                return (await asyncio.to_thread(checked, url, **settings))["hosts"]

            assert ((await hosts()).status, "host add" in (await hosts()).message) == (WARNING, True)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, created_at) "
                    "SELECT gen_random_uuid(), 'host-' || n, 100, 1, now() FROM generate_series(1, 2) AS n"
                )
            assert (await hosts()).status is OK, await hosts()
            of_one = zoom.account.user("host-1").settings
            of_one["recording"] |= {"cloud_recording": False, "recording_audio_transcript": False}
            of_one["schedule_meeting"]["join_before_host"] = False
            zoom.account.user("host-2").settings["recording"]["auto_delete_cmr"] = True
            found = await hosts()
            assert found.status is WARNING
            assert_contains(
                found.message, "cloud recording is off for 1 of 2", "of recordings is off for 1 of 2",
                "before the host is off for 1", "deleted before 90 days for 1", absent=("host-1",),
            )  # fmt: skip
            zoom.terms.scopes = zoom.terms.scopes.replace("user:read:settings:admin", "")
            assert "does not tell" in (await hosts()).message


async def test_a_token_is_requested_from_zoom(database: str) -> None:
    async with zoom_stand_in() as zoom:
        access = access_to(zoom)
        right: dict[str, Any] = {"zoom_client_secret": zoom.credentials.client_secret}
        result = await asyncio.to_thread(lambda: checked(database, **access, **right)["provider"])
        assert result.status is OK
        result = await asyncio.to_thread(
            lambda: checked(database, **access, zoom_client_secret=SECRET)["provider"]
        )
        assert (result.status, "MEETCORE_ZOOM_CLIENT_SECRET" in result.message) == (FAILED, True)
    assert_says(checked(database, **access)["provider"], FAILED, "MEETCORE_ZOOM_CLIENT_SECRET")


@pytest.mark.parametrize("name", ["midtrans", "xendit", "stripe"])
async def test_a_payment_gateway_is_asked_for_something_harmless(database: str, name: str) -> None:
    stand_ins: dict[str, AbstractAsyncContextManager[GatewayStandIn]] = {
        "midtrans": midtrans_stand_in("right"), "xendit": xendit_stand_in("right"),
        "stripe": stripe_stand_in("right"),
    }  # fmt: skip
    async with stand_ins[name] as gateway:

        async def result(secret: str, url: str = gateway.url) -> CheckResult:
            settings: dict[str, Any] = {
                "payment_gateway": name, "payment_gateway_url": url,
                "payment_gateway_webhook_secret": "t0ken",
            }  # fmt: skip
            return (await asyncio.to_thread(checked, database, payment_gateway_secret=secret, **settings))[
                "gateway"
            ]

        found = await result("right")
        assert found.status is OK, found
        assert f"MEETCORE_BASE_URL/payment-events/{name}" in found.message
        assert_says(await result(SECRET), FAILED, "MEETCORE_PAYMENT_GATEWAY_SECRET")
        assert_says(
            await result("right", f"http://127.0.0.1:{free_port()}"), FAILED, "MEETCORE_PAYMENT_GATEWAY_URL"
        )
        assert_says(await result(""), FAILED, "MEETCORE_PAYMENT_GATEWAY_SECRET")
        assert gateway.calls["open"] == gateway.calls["refund"] == 0


def test_gateways_without_money_need_no_check(database: str) -> None:
    assert checked(database)["gateway"].message.startswith("none set")
    assert checked(database, payment_gateway="sandbox")["gateway"].status is OK


@pytest.mark.parametrize(
    ("status", "body", "expected", "expected_text"),
    [
        (200, {"data": [{"id": "whisper-1"}, {"id": "gpt-4o-mini"}]}, OK, "lets us in"),
        (200, {"data": [{"id": "whisper-1"}]}, WARNING, "MEETCORE_AI_WRITE_MODEL"),
        (200, "what", OK, "lets us in"),
        (401, {}, FAILED, "MEETCORE_AI_API_KEY"),
        (404, {}, WARNING, "lists no models"),
        (500, {}, FAILED, "status 500"),
    ],
)
async def test_the_models_are_requested_from_the_ai_provider(
    database: str, status: int, body: object, expected: HealthStatus, expected_text: str
) -> None:
    requests: list[Request] = []

    async def reply(request: Request) -> Reply:
        requests.append(request)
        return as_json(body, status)

    async with serving(reply) as port:
        settings: dict[str, Any] = {"ai_base_url": f"http://127.0.0.1:{port}/v1", "ai_api_key": SECRET}
        assert_says((await asyncio.to_thread(checked, database, **settings))["ai"], expected, expected_text)
    asked = [(each.segments, each.headers["authorization"]) for each in requests]
    assert (("v1", "models"), f"Bearer {SECRET}") in asked
    lacking = await asyncio.to_thread(checked, database, ai_api_key=SECRET)
    assert lacking["ai"].status is FAILED, "a key without an address"


async def ai_result(database: str, ai: AiStandIn, **settings: Any) -> CheckResult:
    """The outcome where the models are asked."""
    named = {
        "ai_base_url": ai.base_url, "ai_api_key": SecretStr(ai.models.api_key),
        "ai_transcribe_model": ai.models.transcribes, "ai_write_model": ai.models.writes,
        "database_url": SecretStr(database), "secrets_key": SecretStr(SECRETS_KEY), **settings,
    }  # fmt: skip
    result = (await asyncio.to_thread(run_checks, Settings(**named), asks_models=True))["ai"]
    assert_contains(result.message, absent=(ai.models.api_key, SECRET, "127.0.0.1", "\n"))
    return result


async def test_the_models_are_asked_to_write_and_to_transcribe(database: str) -> None:
    async with ai_stand_in() as ai:
        found = await ai_result(database, ai)
        assert (found.status, found.message) == (OK, "the models answer a small request as they should")
        assert ai.tally.done == {"completions": 1, "transcriptions": 1}
        await ai_result(database, ai, ai_transcribe_model="")
        assert ai.tally.done == {"completions": 2, "transcriptions": 1}
        await asyncio.to_thread(checked, database, ai_base_url=ai.base_url)
        assert ai.tally.calls.total() == 3, "a page asks no model"


@pytest.mark.parametrize(
    ("settings", "fault", "expected_text"),
    [
        ({"ai_api_key": SecretStr(SECRET)}, "", "MEETCORE_AI_WRITE_MODEL"),
        (
            {"ai_write_model": "nobody"}, "",
            "POST /chat/completions: status 404, settings refused (model_not_found)",
        ),
        ({"ai_transcribe_model": "nobody"}, "", "POST /audio/transcriptions: status 404"),
        ({"ai_transcribe_model": Models().plain}, "", "(response_format)"),
        ({}, "length", "reply cut"), ({}, "not_json", "malformed reply, twice"),
        ({}, "context_length", "context too long"), ({}, "400", "status 400"),
        ({}, "refusal", "the model refused"),
    ],
)  # fmt: skip
async def test_a_model_that_does_not_work_or_makes_no_note_is_named(
    database: str, settings: dict[str, Any], fault: str, expected_text: str
) -> None:
    async with ai_stand_in() as ai:
        if fault:
            ai.faults.plan(Fault(fault, "completions", times=None))
        assert_says(await ai_result(database, ai, **settings), FAILED, expected_text)


@pytest.mark.parametrize("server", MANNERS)
async def test_servers_that_make_notes_are_found_well(database: str, server: str) -> None:
    async with ai_stand_in() as ai:
        ai.manner = MANNERS[server]
        assert (await ai_result(database, ai)).status is OK


async def test_a_login_at_the_mail_server_is_tried_and_no_mail_is_sent(database: str) -> None:
    async with mail_server() as server:

        async def mail_result(password: str) -> CheckResult:
            url = f"smtp://{USER}:{quote(password, safe='')}@127.0.0.1:{server.port}"
            results = await asyncio.to_thread(checked, database, smtp_url=url, mail_from="a@b.example")
            return results["mail"]

        assert (await mail_result(PASSWORD)).message == "the server lets us in"
        assert_says(await mail_result(SECRET), FAILED, "the server answers 535")
        assert server.messages == []


async def test_an_openid_provider_is_asked_for_its_metadata_and_keys(database: str) -> None:
    async with openid_provider() as provider:
        settings = {f"console_oidc_{name}": value for name, value in provider.settings.items()}

        async def result(**changes: object) -> CheckResult:
            return (await asyncio.to_thread(checked, database, **settings | changes))["oidc"]

        assert (await result()).message == "answers, and shows its keys"
        other = await result(console_oidc_issuer=provider.issuer.rstrip("/"))
        assert_says(
            other,
            HealthStatus.FAILED,
            "written as the provider itself writes it: check MEETCORE_CONSOLE_OIDC_ISSUER",
        )
        provider.answers["/keys"] = lambda: None
        assert (await result()).message.startswith("no answer: check MEETCORE_CONSOLE_OIDC_ISSUER")
        lacking = await result(console_oidc_client_secret="")
        assert "MEETCORE_CONSOLE_OIDC_CLIENT_SECRET" in lacking.message
        assert CLIENT_SECRET not in str([other, lacking])
    assert (await result()).status is HealthStatus.FAILED
    assert checked(database)["oidc"].message.startswith("none set")


def test_a_mail_server_that_is_away_or_whose_sender_is_missing(database: str) -> None:
    unset = checked(database)["mail"]
    assert (unset.status, unset.message.startswith("no server set")) == (WARNING, True)
    assert "MEETCORE_SMTP_URL" in unset.message
    url = f"smtp://user:{SECRET}@127.0.0.1:{free_port()}"
    assert_says(checked(database, smtp_url=url)["mail"], FAILED, "MEETCORE_MAIL_FROM")
    away = checked(database, smtp_url=url, mail_from="a@b.example")["mail"]
    assert (away.status, away.message.startswith("no answer: check MEETCORE_SMTP_URL")) == (FAILED, True)


@contextmanager
def tls_server(directory: Path) -> Iterator[tuple[str, str]]:
    """A server with a certificate of a private authority: its URL, and the file of the authority."""
    authority = Authority(directory)
    context = authority.certified(ip_address("127.0.0.1"))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    context.wrap_socket(listener.accept()[0], server_side=True).close()

        threading.Thread(target=accept, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", authority.ca_file


def test_what_webhooks_need_of_this_machine_is_named_in_one_sentence(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not answers_lookups():
        pytest.skip("this machine has no name server")
    with tls_server(tmp_path) as (url, ca_file):
        settings: dict[str, Any] = {"provider": "zoom", "zoom_api_url": url}
        known = checked(database, **settings, ca_file=ca_file)["outbound"]
        assert (known.status, known.message) == (OK, "names are looked up, and TLS is possible")
        unknown = checked(database, **settings)["outbound"]
        assert unknown.status is FAILED
        assert unknown.message.startswith("no TLS (")
        assert unknown.message.endswith("the server of MEETCORE_ZOOM_API_URL")
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.setenv(name, str(tmp_path / "gone"))
        assert "no certificate authorities" in checked(database, **settings)["outbound"].message
        monkeypatch.undo()
    away = checked(database, **settings, ca_file=ca_file)["outbound"]
    assert (away.status, away.message.startswith("no connection (")) == (FAILED, True)


def test_a_standby_is_looked_at_and_the_service_works_without_it(database: str) -> None:
    with silent() as port:
        away = checked(
            database, database_read_url=f"postgresql://nobody@127.0.0.1:{port}/x?connect_timeout=2"
        )
    assert_says(away["standby"], WARNING, "MEETCORE_DATABASE_READ_URL")
    misled = checked(database, database_read_url=database)
    assert_says(misled["standby"], WARNING, "no standby")


@pytest.mark.parametrize(
    ("status", "expected", "named"),
    [
        (200, OK, "takes traces"),
        (401, FAILED, "MEETCORE_TRACES_HEADERS"),
        (404, FAILED, "/v1/traces"),
        (500, FAILED, "status 500"),
    ],
)
def test_a_collector_of_traces_is_asked_to_take_none(
    database: str, status: int, expected: HealthStatus, named: str
) -> None:
    with collecting() as collector:
        collector.status = status
        assert_says(
            checked(database, traces_url=collector.url, traces_headers=f"x-key={SECRET}")["traces"],
            expected,
            named,
        )
        assert (collector.bodies, collector.spans, collector.batches[0]["x-key"]) == ([b""], [], SECRET)
    assert checked(database, traces_url=collector.url)["traces"].status is FAILED
    assert checked(database)["traces"].status is OK
