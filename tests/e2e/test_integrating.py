"""The blocks of docs/integrating.md in order, against a running service and a receiver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.customers import enrol
from tests.e2e.receiver import Receiver
from tests.support.program import Site, until
from tests.unit.test_docs import python_blocks

BLOCKS = list(python_blocks(runner="tests/e2e/test_integrating.py"))


@pytest.mark.spec("4.1/5", "4/idem-replay", "4/idem-reused", "6/3", "3/cancel-before")
def test_an_integration_follows_the_documentation(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, key = enrol(site)
    with site.serve(**receiver.settings) as api:
        monkeypatch.setenv("MEETCORE_BASE_URL", api.url)
        monkeypatch.setenv("MEETCORE_API_KEY", key)
        monkeypatch.setenv("RECEIVER_URL", receiver.url("integrating"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        names: dict[str, Any] = {"__name__": "__docs__"}
        for block in BLOCKS:
            for line, code in block.parts:
                for _ in range(2 if "rotate-secret" in code else 1):  # the second as in a later run
                    exec(compile("\n" * line + code, block.name, "exec"), names)
        names["send"]("POST", "/meetings", names["wanted"])
        [sent] = until(lambda: receiver.at("integrating"), "the event has come")
        header = sent.headers["X-Service-Signature"]
        signed_at = int(header.partition(",")[0].removeprefix("t="))
        assert names["receive"](sent.body, header, signed_at) == 204
        assert len(names["done"]) == 1
        assert names["receive"](sent.body + b" ", header, signed_at) == 401
        assert names["receive"](sent.body, header, signed_at + 301) == 401
        names["api"].close()
