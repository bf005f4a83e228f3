"""OpenID providers: who came back is who went there, by a code that works once and for one sign-in."""

from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import pytest

from meetcore.domain.members.identities import Identity, flow_secrets
from meetcore.ports.identity_provider import IdentityProvider, IdentityRefused, ProviderAnswer

CALLBACK = "https://meet.example/dashboard/sign-in/oidc/callback"
FLOW = flow_secrets("token of a browser")


class IdentityRig(Protocol):
    """An adapter, and somebody who is signed in at its provider with a verified address."""

    provider: IdentityProvider
    identity: Identity

    async def approve(self, url: str) -> ProviderAnswer:
        """Follow an address as that person's browser does, and return what comes back."""


@pytest.mark.asyncio
class IdentityProviderContract:
    """What `ports.identity_provider.IdentityProvider` promises.

    Give it the fixture `rig`, an `IdentityRig`.
    """

    async def test_a_browser_is_sent_with_what_binds_the_answer_to_it(self, rig: IdentityRig) -> None:
        url = await rig.provider.authorization_url(FLOW, CALLBACK, False)
        sent = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert sent["state"] == FLOW.state
        assert sent["nonce"] == FLOW.nonce
        assert sent["redirect_uri"] == CALLBACK
        assert sent["response_type"] == "code"
        assert (sent["code_challenge"], sent["code_challenge_method"]) == (FLOW.code_challenge, "S256")
        assert {"openid", "email"} <= set(sent["scope"].split())
        assert FLOW.code_verifier not in url
        assert "prompt" not in sent
        again = parse_qs(urlsplit(await rig.provider.authorization_url(FLOW, CALLBACK, True)).query)
        assert (again["prompt"], again["max_age"]) == (["login"], ["0"])

    async def test_who_signs_in_again_brings_the_time_back(self, rig: IdentityRig) -> None:
        answer = await rig.approve(await rig.provider.authorization_url(FLOW, CALLBACK, True))
        assert (await rig.provider.identify(answer, FLOW, CALLBACK)).authenticated_at is not None

    async def test_who_comes_back_is_who_the_provider_says(self, rig: IdentityRig) -> None:
        answer = await rig.approve(await rig.provider.authorization_url(FLOW, CALLBACK, False))
        assert await rig.provider.identify(answer, FLOW, CALLBACK) == rig.identity

    async def test_a_code_works_once(self, rig: IdentityRig) -> None:
        answer = await rig.approve(await rig.provider.authorization_url(FLOW, CALLBACK, False))
        await rig.provider.identify(answer, FLOW, CALLBACK)
        with pytest.raises(IdentityRefused):
            await rig.provider.identify(answer, FLOW, CALLBACK)

    async def test_a_code_of_another_sign_in_is_refused(self, rig: IdentityRig) -> None:
        answer = await rig.approve(await rig.provider.authorization_url(FLOW, CALLBACK, False))
        with pytest.raises(IdentityRefused):
            await rig.provider.identify(answer, flow_secrets("another"), CALLBACK)

    async def test_a_code_that_is_none_is_refused(self, rig: IdentityRig) -> None:
        for code in ("", "unknown", "x" * 4096):
            with pytest.raises(IdentityRefused):
                await rig.provider.identify(ProviderAnswer(code), FLOW, CALLBACK)
