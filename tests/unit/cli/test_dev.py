"""`meetcore dev` works on its own database alone."""

from pathlib import Path

from meetcore.adapters.settings import SecretStr, Settings
from meetcore.cli.dev import _own_settings

OWN, OTHER = "postgresql://own/meetcore", SecretStr("postgresql://other/meetcore")


def test_no_database_that_the_environment_names_is_touched(tmp_path: Path) -> None:
    (tmp_path / "secrets.key").write_text("A" * 43)
    given = Settings(
        database_url=OTHER, database_direct_url=OTHER, database_read_url=OTHER, database_pooler="transaction"
    )
    own = _own_settings(given, OWN, 8000, tmp_path)
    assert (own.require_database(), own.direct_database, str(own.database_read_url)) == (OWN, OWN, "")
    assert not own.is_pooled
