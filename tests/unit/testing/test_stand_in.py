"""The part that the stand-ins of services share."""

import httpx
import pytest

from meetcore.testing.stand_in import Reply, Request, serving


async def test_a_fault_of_a_stand_in_is_printed_at_once(capsys: pytest.CaptureFixture[str]):
    async def fail(request: Request) -> Reply | None:
        raise LookupError("no such order")

    async def ask() -> None:
        async with serving(fail) as port, httpx.AsyncClient(trust_env=False) as http:
            with pytest.raises(httpx.RemoteProtocolError):
                await http.get(f"http://127.0.0.1:{port}/orders")
            printed.append(capsys.readouterr().err)

    printed: list[str] = []
    with pytest.raises(BaseExceptionGroup, match="the stand-in has failed"):
        await ask()
    assert "LookupError: no such order" in printed[0]
