"""`meetcore dev` works on its own database alone, and keeps the key of what that holds."""

import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from meetcore.adapters.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from meetcore.adapters.settings import SecretStr, Settings
from meetcore.cli import dev
from meetcore.cli.dev import _own_settings
from meetcore.cli.inputs import InputRefused

OWN, OTHER = "postgresql://own/meetcore", SecretStr("postgresql://other/meetcore")


def test_no_database_that_the_environment_names_is_touched(tmp_path: Path) -> None:
    (tmp_path / "secrets.key").write_text("A" * 43)
    given = Settings(
        database_url=OTHER, database_direct_url=OTHER, database_read_url=OTHER, database_pooler="transaction"
    )
    own = _own_settings(given, OWN, 8000, tmp_path)
    assert (own.require_database(), own.direct_database, str(own.database_read_url)) == (OWN, OWN, "")
    assert not own.is_pooled


class FakePostgres:
    """A database of this directory: it is there unless another program holds it, and may not stop."""

    is_running = True

    def __init__(self, url: str, home: Path, *, is_held: bool = False, stops: bool = True) -> None:
        self.url, self.home, self.is_held, self.stops = url, home, is_held, stops

    def __enter__(self) -> str:
        if self.is_held:
            (self.home / "secrets.key").touch()  # the other program has made one, unless there was one
            raise EmbeddedPostgresError("in use")
        return self.url

    def __exit__(self, *_: object) -> None:
        if not self.stops:
            raise EmbeddedPostgresError("does not stop")


def serve(database: FakePostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_nothing(service: Coroutine[Any, Any, None]) -> None:
        service.close()

    monkeypatch.setattr("meetcore.cli.runner.run_service", run_nothing)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dev._serve(Settings(), listener, database.home, cast(EmbeddedPostgres, database), is_for_tests=False)


@pytest.mark.parametrize("fault", [{"is_held": True}, {"stops": False}])
def test_no_key_of_a_database_that_may_hold_something_is_removed(
    fault: dict[str, bool], empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="1"):
        serve(FakePostgres(empty_database_url, tmp_path, **fault), monkeypatch)
    assert (tmp_path / "secrets.key").exists()


def test_a_database_of_another_release_is_refused_with_a_reason(
    empty_database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    serve(FakePostgres(empty_database_url, tmp_path), monkeypatch)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9999, 'later', '')")
    with pytest.raises(SystemExit, match="1"):
        serve(FakePostgres(empty_database_url, tmp_path), monkeypatch)
    assert "too new for this release" in capsys.readouterr().err


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputRefused, match=f"--data-dir {file} cannot be made: File exists"):
        dev._make_data_dir(file)
