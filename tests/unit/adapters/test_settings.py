"""Names in settings and in files: misspelt names are refused, unknown ones are listed."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from meetcore.adapters.settings import Settings, SettingsRefused, load_settings, strange_variables
from meetcore.adapters.settings.tiers import read_packages, read_tiers
from meetcore.domain.money.pricing import DEFAULT_TIERS
from meetcore.domain.payments.packages import EXAMPLE_PACKAGES, FreeAmount, PackageCatalogue, Seller
from tests.support.texts import assert_contains

TIER = 'id = "s"\nname = "S"\ncapacity = 10\nmax_duration = 60\ncredits = 4\nrecording_credits = 2\n'


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CONFIG_FILE", "TIERS_FILE"):
        monkeypatch.delenv(f"MEETCORE_{variable}", raising=False)


def tiers_file(tmp_path: Path, text: str) -> str:
    file = tmp_path / "tiers.toml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(("text", "named", "nearest"), [
    (f"[[tiers]]\n{TIER}", "'tiers'", "did you mean [[tier]]?"),
    ("[notulenn]\ncredits_per_minute = 3\n", "'notulenn'", "did you mean [notulen]?"),
    (f"[[tier]]\n{TIER}credit = 9\n", "[[tier]] 1 has 'credit'", "did you mean credits?"),
    ("[notulen]\ncredits_per_minutes = 3\n", "'credits_per_minutes'", "did you mean credits_per_minute?"),
    ("zzz = 1\n", "'zzz'", "which is not known"),
    (f"[tier]\n{TIER}", "a table [[tier]]", ""),
    ("notulen = 3\n", "a table [notulen]", ""),
    (f"[[tier]]\n{TIER.replace('capacity = 10', '')}", "lacks capacity", ""),
    (f"[[tier]]\n{TIER.replace('= 4', '= 0')}", "credits must be a whole number", ""),
    (f"[[tier]]\n{TIER}[[tier]]\n{TIER}", "given twice", ""),
    ("[notulen]\ncredits_per_minute = 0\n", "whole number", ""),
    ("[notulen]\ncredits_per_minute_by_rules = 0\n", "credits_per_minute_by_rules must be a whole", ""),
    ("[[tier", "not TOML", ""),
])  # fmt: skip
def test_unknown_fields_in_a_tiers_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, named: str, nearest: str
) -> None:
    monkeypatch.setenv("MEETCORE_TIERS_FILE", tiers_file(tmp_path, text))
    with pytest.raises(SettingsRefused) as caught:
        load_settings()
    message = str(caught.value)
    assert message.startswith("MEETCORE_TIERS_FILE must be a TOML file of [[tier]] tables")
    assert_contains(message, named, nearest, absent=(str(tmp_path),))


def test_a_tiers_file_names_tiers_and_the_price_of_a_minute(tmp_path: Path) -> None:
    catalogue = read_tiers(tiers_file(tmp_path, f"[notulen]\ncredits_per_minute = 3\n[[tier]]\n{TIER}"))
    assert [tier.id for tier in catalogue.on_sale()] == ["s"]
    assert catalogue.notulen_credits_per_minute == 3
    assert catalogue.notulen_credits_per_minute_by_rules == 3
    by_rules = "[notulen]\ncredits_per_minute = 3\ncredits_per_minute_by_rules = 2\n"
    assert read_tiers(tiers_file(tmp_path, by_rules)).notulen_credits_per_minute_by_rules == 2
    of_minutes = read_tiers(tiers_file(tmp_path, "[notulen]\ncredits_per_minute = 3\n"))
    assert of_minutes.tiers == DEFAULT_TIERS.tiers
    assert read_tiers("") == DEFAULT_TIERS
    with pytest.raises(ValueError, match="it cannot be read"):
        read_tiers(str(tmp_path / "nowhere.toml"))


@pytest.mark.parametrize(("misspelt", "meant"), [
    ("QUOTA_REED", "QUOTA_READ"), ("SECRET_KEY", "SECRETS_KEY"), ("TIER_FILE", "TIERS_FILE"),
])  # fmt: skip
def test_a_misspelt_variable_is_refused_with_the_nearest_name(
    monkeypatch: pytest.MonkeyPatch, misspelt: str, meant: str
) -> None:
    monkeypatch.setenv(f"MEETCORE_{misspelt}", "hunter2")
    monkeypatch.delenv(f"MEETCORE_{meant}", raising=False)
    with pytest.raises(SettingsRefused) as caught:
        load_settings()
    assert str(caught.value) == f"MEETCORE_{misspelt} is not a setting; did you mean MEETCORE_{meant}?"


KUBERNETES = (
    "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8000_TCP", "PORT_8000_TCP_ADDR",
    "RATE_STORE_PORT", "DATABASE_SERVICE_HOST", "BROKER_PORT_5672_TCP_PROTO",
)  # fmt: skip


def test_variables_of_others_are_left_alone_or_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ("API_KEY", "CONFIG_FILE", "BASE_URL", "TEST_DATABASE_URI")
    for name in (*KUBERNETES, *known, "COLOUR"):
        monkeypatch.setenv(f"MEETCORE_{name}", "" if name == "CONFIG_FILE" else "http://127.0.0.1")
    assert "MEETCORE_COLOUR" in strange_variables(load_settings())
    assert not {f"MEETCORE_{name}" for name in (*KUBERNETES, *known)} & set(
        strange_variables(load_settings())
    )
    assert isinstance(load_settings(), Settings)


def test_a_name_similar_to_one_that_is_set_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEETCORE_QUOTA_READ", "7")
    monkeypatch.setenv("MEETCORE_QUOTA_READS", "8")
    assert load_settings().quota_read == 7
    assert "MEETCORE_QUOTA_READS" in strange_variables(load_settings())


@pytest.mark.parametrize(("text", "message"), [
    ('[meetcore]\nbase_urll = "http://h"\n', "'base_urll' is not a setting; did you mean base_url?"),
    ('base_url = "http://h"\n', "base_url stands outside the table [meetcore]"),
    ('[metcore]\nbase_url = "http://h"\n', "no table [meetcore]"),
    ("[[meetcore", "cannot be read as TOML"),
])  # fmt: skip
def test_a_name_that_would_be_ignored_in_the_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    file = tmp_path / "meetcore.toml"
    file.write_text(text)
    monkeypatch.setenv("MEETCORE_CONFIG_FILE", str(file))
    with pytest.raises(SettingsRefused) as caught:
        load_settings()
    assert message in str(caught.value)
    assert "MEETCORE_CONFIG_FILE" in str(caught.value)


def test_other_tables_of_the_file_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEETCORE_BASE_URL", raising=False)
    file = tmp_path / "all.toml"
    file.write_text('[meetcore]\nbase-url = "http://h"\n[tool.other]\nbase_urll = 1\n')
    monkeypatch.setenv("MEETCORE_CONFIG_FILE", str(file))
    assert load_settings().base_url == "http://h"
    file.write_text("")
    assert load_settings().base_url == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    "url", ["", "smtp://127.0.0.1:1025", "smtps://u:p%40w@mail.example", "smtp://[::1]/"]
)
def test_a_mail_server_may_be_named(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("MEETCORE_SMTP_URL", url)
    settings = load_settings()
    assert str(settings.smtp_url) == url
    assert url not in repr(settings) or not url


IMPOSSIBLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "QUOTA_READ": ("a whole number", ("hunter2",)),
    "HOME_PAGE": ("true or false", ("hunter2",)),
    "SMTP_URL": ("an smtp://", (
        "mail.example", "http://mail.example", "smtp://", "smtp://mail.example:0", "smtp://mail.example:99999",
        "smtp://user@mail.example", "smtp://mail.example/path", "smtps://mail.example?tls=no",
    )),
    "MAIL_FROM": ("an e-mail address", ("mail", "A <mail>", "a@b.example, c@d.example")),
    "TRACES_URL": ("", (
        "127.0.0.1:4318/v1/traces", "http://127.0.0.1:4318", "http://127.0.0.1:4318/",
        "http://user:hunter2@127.0.0.1:4318/v1/traces", "grpc://127.0.0.1:4317/x",
    )),
    "TRACES_SAMPLED": ("a number", ("hunter2", "-0.1", "1.1", "nan")),
    "TRACES_HEADERS": ("", ("hunter2", "=hunter2", "a b=hunter2", "x-key=hunter2\r\ny", "x-key=")),
    "AI_BASE_URL": ("", ("ftp://x", "https://user:hunter2@x/v1")),
    "AI_API_KEY": ("", ("two hunter2",)),
    "AI_TRANSCRIBE_MODEL": ("", ("two words",)),
    "AI_TRANSCRIBE_FORMAT": ("", ("vtt",)),
    "AI_TIMEOUT_S": ("", ("0",)),
    "AI_CONTEXT_CHARS": ("", ("100",)),
    "AI_SPOKEN_LANGUAGE": ("", ("indonesian",)),
    **{
        f"{name}_RETENTION_DAYS": (f"a whole number from {least} to", (f"{least - 1}", "36501", "9999999"))
        for name, least in {"RECORDING": 1, "MEETING": 0, "NOTE": 0, "EVENT": 14}.items()
    },
    "TRANSCRIPT_WAIT_S": ("", ("-1", "1.5", "half an hour", "\u0661", "31536001", "9" * 30)),
    "DRAIN_S": ("a whole number from 0 to 3600", ("-1", "3601", "5000000")),
    "DATABASE_TIMEOUT_S": ("a whole number from 3 to 3600", ("2", "3601", "100000000")),
    "MEETING_EMPTY_FOR_S": ("a whole number from 1 to", ("0", "31536001", "1000000000000")),
    "WEBHOOK_RETRY_SCHEDULE": ("whole seconds", ("-1", "1.5", "5,nan", "5,31536001", "1000000000000000")),
    "NOTE_RETRY_SCHEDULE": ("whole seconds", ("5,31536001",)),
}  # fmt: skip


@pytest.mark.parametrize("variable", IMPOSSIBLE)
def test_an_impossible_value_is_refused_by_name_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    form, values = IMPOSSIBLE[variable]
    for value in values:
        monkeypatch.setenv(f"MEETCORE_{variable}", value)
        with pytest.raises(SettingsRefused) as caught:
            load_settings()
        assert str(caught.value).startswith(f"MEETCORE_{variable} must be {form}"), value
        assert_contains(str(caught.value), absent=("hunter2", "mail.example"))


def test_a_year_of_seconds_is_the_longest_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRANSCRIPT_WAIT_S", "MEETING_EMPTY_FOR_S", "WEBHOOK_RETRY_SCHEDULE", "NOTE_RETRY_SCHEDULE"):
        monkeypatch.setenv(f"MEETCORE_{name}", "31536000")
    settings = load_settings()
    assert settings.transcript_waited_s == settings.meeting_empty_for_s == 31_536_000
    assert settings.retry_schedule.delays_s == settings.note_schedule.delays_s == (31_536_000,)


def test_the_settings_of_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings()
    assert (settings.traces_url, settings.traces_sampled, settings.traces_header_fields) == ("", 0.01, {})
    for name, value in {
        "URL": "https://collector.example/v1/traces", "SAMPLED": "0.001",
        "HEADERS": "x-key=a=b, authorization=Bearer hunter2",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"MEETCORE_TRACES_{name}", value)
    settings = load_settings()
    assert (settings.traces_url, settings.traces_sampled) == ("https://collector.example/v1/traces", 0.001)
    assert settings.traces_header_fields == {"x-key": "a=b", "authorization": "Bearer hunter2"}
    assert "hunter2" not in repr(settings)


def test_a_file_of_prices_names_packages_and_the_seller(tmp_path: Path) -> None:
    prices = """
[[package]]
id = "starter"
name = "Paket awal"
credits = 500
price = 500000
currency = "IDR"
valid_until = 2026-12-31
[free_amount]
credits_from = 100
credits_to = 1000
price_per_credit = 1000
currency = "IDR"
[seller]
name = "PT Rapat"
tax_percent = 11.5
"""
    found = read_packages(tiers_file(tmp_path, prices))
    assert [(each.id, each.name, each.valid_until) for each in found.packages.values()] == [
        ("starter", "Paket awal", date(2026, 12, 31))
    ]
    assert (found.tax_basis_points, found.seller, found.free) == (
        1_150, Seller("PT Rapat"), FreeAmount(100, 1_000, 1_000, "IDR"),
    )  # fmt: skip
    assert read_tiers(tiers_file(tmp_path, prices)) == DEFAULT_TIERS
    assert read_packages("") == PackageCatalogue()


@pytest.mark.parametrize(("text", "message"), [
    ("[seller]\ntax_percent = 101", "tax_percent must be a number from 0 to 100"),
    ("[seller]\ntax_percent = 1.005", "at most two decimals"),
    ("[seller]\ntax_percent = true", "tax_percent must be a number"),
    ('[seller]\ncity = "x"', "[seller] has 'city'"),
    ("[seller]\ntax_number = 1234567890", "[seller]: tax_number must be a text in quotes"),
    ('[seller]\nname = "PT\\u0000"', "[seller]: name must be a text in quotes, without control characters"),
    ('[[package]]\nid = "a"', "[[package]] 1 lacks credits, price, currency"),
    ('[[package]]\nid = "a"\ncredits = 1\nprice = 1\ncurrency = "Rp"', "[[package]] 1: currency must be"),
    ("[free_amount]\ncredits_from = 1", "[free_amount] lacks credits_to, price_per_credit, currency"),
    ("package = 3", "write each tier as a table [[tier]]"),
])  # fmt: skip
def test_a_file_of_prices_with_a_fault_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_packages(tiers_file(tmp_path, text))


def test_the_sandbox_gateway_sells_examples_unless_packages_are_named(tmp_path: Path) -> None:
    assert Settings(payment_gateway="sandbox").packages == EXAMPLE_PACKAGES
    assert Settings().packages == PackageCatalogue()
    own = tiers_file(tmp_path, '[[package]]\nid = "a"\ncredits = 1\nprice = 1\ncurrency = "IDR"')
    assert list(Settings(payment_gateway="sandbox", tiers_file=own).packages.packages) == ["a"]


@pytest.mark.parametrize("contact", ["", "help@example.com", "https://example.com/help"])
def test_a_support_contact_is_an_address(contact: str) -> None:
    assert Settings(support_contact=contact).support_contact == contact


@pytest.mark.parametrize("contact", ["help", "http://example.com", "help@", "javascript:a@b"])
def test_another_support_contact_is_refused(contact: str) -> None:
    with pytest.raises(ValueError, match="MEETCORE_SUPPORT_CONTACT must be an e-mail address"):
        Settings(support_contact=contact)


@pytest.mark.parametrize(("written", "origin"), [
    ("https://meet.example.com:443", "https://meet.example.com"),
    ("HTTPS://Meet.Example.com/", "https://meet.example.com"),
    ("http://127.0.0.1:80", "http://127.0.0.1"), ("http://127.0.0.1:443", "http://127.0.0.1:443"),
    ("https://[2001:DB8::1]:443", "https://[2001:db8::1]"), ("https://[2001:db8::1]", "https://[2001:db8::1]"),
    ("https://meet.example.com/Sub", "https://meet.example.com/Sub"),
])  # fmt: skip
def test_the_base_url_is_written_as_browsers_write_an_origin(written: str, origin: str) -> None:
    assert Settings(base_url=written).base_url == origin
