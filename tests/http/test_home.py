"""The page at `/`: what the service is, or the API reference where operators turned it off."""

from __future__ import annotations

import httpx
from attrs import evolve

from meetcore.adapters.settings import Settings
from meetcore.app import Service
from meetcore.composition.infrastructure import Network
from tests.support.api_harness import BASE_URL, started


async def test_the_address_of_the_service_says_what_it_is(service: Service) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL) as http:
        page = await http.get("/", headers={"Accept-Language": "en"})
        assert page.status_code == 200
        assert "Online meetings and meeting notes" in page.text
        for path in ("/dashboard", "/docs"):
            assert f'href="{path}"' in page.text
            assert (await http.get(path)).status_code in (200, 303)
        indonesian = await http.get("/", headers={"Accept-Language": "id"})
        assert "Rapat daring dan notulen" in indonesian.text


async def test_operators_can_turn_the_page_off(service_settings: Settings, network: Network) -> None:
    service = Service(evolve(service_settings, home_page=False), network)
    async with (
        started(service),
        httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL) as http,
    ):
        answer = await http.get("/")
        assert (answer.status_code, answer.headers["Location"]) == (307, "docs")
