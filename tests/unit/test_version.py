"""The version of the package."""

from importlib import metadata

import pytest

import meetcore


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    assert meetcore.__version__ == metadata.version("meetcore")

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert meetcore.__version__ == "0"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        meetcore.nothing  # noqa: B018
