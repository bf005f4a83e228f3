"""Policy changes that no setting makes, such as shorter leases."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from attrs import evolve

from meetcore.adapters.settings import Settings
from meetcore.composition import infrastructure
from meetcore.composition.configuration import policy_of
from meetcore.composition.policy import Policy

VARIABLE: Final = "MEETCORE_TEST_POLICY"
"""Holds the changes for a launched program, as JSON."""


@contextmanager
def policy_changed(**changes: Any) -> Iterator[None]:
    """Change the policy of each application opened in the block."""
    _change(changes)
    try:
        yield
    finally:
        _change({})


def fit() -> None:
    """Apply the policy changes of the environment."""
    _change(json.loads(os.environ.get(VARIABLE, "{}")))


def _change(changes: Mapping[str, Any]) -> None:
    def changed(settings: Settings) -> Policy:
        return evolve(policy_of(settings), **changes)

    vars(infrastructure)["policy_of"] = changed  # where `open_application` looks for it
