"""The package `meetcore.domain`: it names its modules and loads each when it is first named."""

from pathlib import Path

import pytest

import meetcore.domain

MODULES = sorted(
    path.stem for path in Path(meetcore.domain.__file__).parent.glob("*.py") if path.stem != "__init__"
)


def test_the_package_names_every_module_and_nothing_else() -> None:
    assert meetcore.domain.__all__ == MODULES
    assert dir(meetcore.domain) == MODULES


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_loaded_when_it_is_named(name: str) -> None:
    # Asked for twice: an attribute that import has set hides the function from the first way.
    for module in (getattr(meetcore.domain, name), meetcore.domain.__getattr__(name)):
        assert module.__name__ == f"meetcore.domain.{name}"


@pytest.mark.parametrize("name", ["clock", "", "json", "__path"])
def test_names_of_no_module_are_no_attributes(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'meetcore.domain' has no attribute '{name}'$"):
        meetcore.domain.__getattr__(name)
