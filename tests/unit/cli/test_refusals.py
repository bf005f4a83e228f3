"""What commands refuse before they reach a database: mistakes on the command line and in settings."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
import structlog

from meetcore.cli.main import main
from tests.support.program import SECRETS_KEY, Done

SECRET = "hunter2"
TOO_EARLY = "0001-01-01T00:00+14:00"
UNKNOWN = "0190a1b2-0000-7000-8000-000000000000"

Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a command to its end in this process, whose logs and garbage collection it changes."""

    def called(*arguments: str, **settings: str) -> Done:
        address = "postgresql://u@127.0.0.1:1/d"
        given = {"database_url": address, "secrets_key": SECRETS_KEY} | settings
        for name, value in given.items():
            monkeypatch.setenv(f"MEETCORE_{name.upper()}", value)
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return Done(int(str(ended.value.code)), *capsys.readouterr())

    threshold, logs = gc.get_threshold(), structlog.get_config()
    yield called
    gc.set_threshold(*threshold)
    gc.unfreeze()
    structlog.configure(**logs)


MISTAKES = {
    "unknown command": (("crdits", "verify"), "credits"),
    "no such command": (("foo",), 'Unknown command "foo". --help lists the options.'),
    "nearly a command": (("accounts",), 'Did you mean "account"? --help lists the options.'),
    "unknown subcommand": (("account", "creat"), "create"),
    "missing option": (("account", "create", "--email", "e@example.test"), ": --full-name is missing."),
    "missing id": (("account", "show"), ": ID is missing."),
    "option without a value": (("key", "list", "--account"), "--account requires an argument."),
    "misspelt option": (("host", "list", "--jsno"), "--jsno"),
    "too many words": (("migrate", "now"), "now"),
    "not an id": (("key", "revoke", "42"), "42"),
    "no operator's id": (("operator", "link", "ops@example.test"), "meetcore operator list shows them"),
    "no token's id": (("operator", "token", "revoke", "x"), "meetcore operator token list shows them"),
    "account is no id": (("credits", "topup", "--account", "x", "--amount", "1"), "--account"),
    "unknown scope": (("key", "create", "--account", UNKNOWN, "--scope", "meetings:all"), "meetings:read"),
    "role of a member": (
        ("portal", "link", "--account", UNKNOWN, "--role", "viewer", "--email", "e@example.test"), "--email"
    ),
    "no scope": (("key", "create", "--account", UNKNOWN), "--scope"),
    "bad time": (
        ("key", "create", "--account", UNKNOWN, "--scope", "credits:read", "--expires-at", "tomorrow"),
        "2026-12-31T17:00:00Z",
    ),
    "time without offset": (
        ("key", "create", "--account", UNKNOWN, "--scope", "credits:read", "--expires-at", "2027-01-01"),
        "--expires-at",
    ),
    "time before the calendar": (
        ("key", "create", "--account", UNKNOWN, "--scope", "credits:read", "--expires-at", TOO_EARLY),
        "--expires-at",
    ),
    "zero adjustment": (
        ("credits", "adjust", "--account", UNKNOWN, "--amount", "0", "--reason", "r"),
        "--amount must not be 0",
    ),
    "huge adjustment": (
        ("credits", "adjust", "--account", UNKNOWN, "--amount", f"-{10**15 + 1}", "--reason", "r"),
        f"--amount must be a whole number from -{10**15} to {10**15}, not -{10**15 + 1}",
    ),
    "no process": (("credits", "verify", "--processes", "0"), "whole number from 1 to 64"),
    "no pause": (("partitions", "--every-h", "0"), "hours from 0.01 to 168"),
    "no pause that is a number": (("partitions", "--every-h", "nan"), "--every-h"),
    "a pause of months": (("partitions", "--every-h", "1000"), "--every-h"),
    "negative amount": (("credits", "topup", "--account", UNKNOWN, "--amount", "-5"), "--amount"),
    "zero amount": (("credits", "topup", "--account", UNKNOWN, "--amount", "0"), "1"),
    "broken amount": (("credits", "topup", "--account", UNKNOWN, "--amount", "10.7"), "whole number"),
    "huge amount": (
        ("credits", "topup", "--account", UNKNOWN, "--amount", "9" * 40), f"from 1 to {10**15}, not 9",
    ),
    "amount without end": (("credits", "topup", "--account", UNKNOWN, "--amount", "9" * 5000), "--amount"),
    "negative credits": (
        ("account", "create", "--email", "e", "--full-name", "n", "--credits", "-1"), "--credits",
    ),
    "negative cap": (("key", "set-cap", UNKNOWN, "--daily-cap", "-1"), "--daily-cap"),
    "no seats": (("host", "add", "--provider-user-id", "u", "--capacity", "0"), "--capacity"),
    "empty name": (("account", "create", "--email", "e", "--full-name", ""), "--full-name"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_usage_error_exits_with_2_and_suggests_a_correction(run: Run, mistake: str) -> None:
    arguments, hint = MISTAKES[mistake]
    done = run(*arguments, "--json")
    assert (done.code, hint in done.err, "Traceback" in done.err) == (2, True, False), done
    assert done.error in ("usage", "invalid_amount")
    assert run(*arguments).out == ""


def test_a_missing_word_has_the_name_that_the_help_shows(run: Run) -> None:
    for words, name in ((("api",), "METHOD"), (("api", "GET"), "PATH")):
        assert run(*words) == Done(2, "", f"meetcore: {name} is missing. --help lists the options.\n")


@pytest.mark.parametrize(
    ("command", "step", "code"),
    [(("host", "list"), "runner.with_application", 130), (("events", "tail"), "customer.read_access", 0)],
)
def test_a_command_that_is_interrupted_is_not_done_unless_it_runs_until_then(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], step: str, code: int
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"meetcore.cli.{step}", interrupt)
    assert run(*command) == Done(code, "", "")


IMPOSSIBLE = {
    "database_url": [f"mysql://u:{SECRET}@h/d", f"postgresql://u:{SECRET}@h:port/d", f"postgresql://u:{SECRET}@h/d?no=1"],
    "broker_url": [f"nats://u:{SECRET}@h", f"redis://u:{SECRET}@h:port/0", f"amqp://u:{SECRET}@h:port/"],
    "rate_store_url": [f"amqp://u:{SECRET}@h", f"redis://u:{SECRET}@h:99999/0"],
    "base_url": ["meet.example", "ftp://meet.example", "http://meet.example:port", f"https://u:{SECRET}@meet.example"],
    "key_prefix": ["", "MK", "1x"],
    "provider": ["zomo"],
    "jitsi_url": ["meet.example", "https://meet.example/#x", f"https://u:{SECRET}@meet.example"],
    "tiers_file": ["/nowhere.toml", __file__],
    "quota_read": ["0", "many"],
    "quota_write": ["-1"],
    "quota_credit": ["1.5x"],
    "quota_tool": [""],
    "webhook_allowed_networks": ["10.0.0.1/8", "localhost"],
    "trusted_proxies": ["10.0.0.1/8", "proxy"],
    "ca_file": ["/nowhere.pem", __file__],
    "webhook_retry_schedule": ["5,soon", "-5"],
    "secrets_key": [SECRET, "", f"{SECRET},{SECRET}"],
    "database_pool_size": ["0"],
    "log_level": ["loud"],
    "config_file": ["/nowhere.toml"],
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_invalid_setting_is_named_and_no_secret_shown(run: Run, name: str) -> None:
    for value in IMPOSSIBLE[name]:
        done = run("host", "list", "--json", **{name: value})
        named = f"MEETCORE_{name.upper()}"
        assert (done.code, named in done.err, "Traceback" in done.err) == (3, True, False), done
        assert done.error == "settings"
        assert SECRET not in done.out + done.err
