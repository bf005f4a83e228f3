"""Prices: estimates for callers, and the prices in force for operators."""

from collections.abc import Sequence

from attrs import frozen

from meetcore.domain.meetings.hosts import tiers_without_host
from meetcore.domain.meetings.meetings import MeetingOptions, ProviderAbilities, estimate_meeting
from meetcore.domain.members import roles, views
from meetcore.domain.money import pricing
from meetcore.domain.notes import notes
from meetcore.ports import requests, video_provider


@frozen
class Estimate:
    """Prices work with the catalogue, and the provider and the note writer that would do it.

    Reads and writes nothing.
    """

    catalogue: pricing.TierCatalogue
    abilities: ProviderAbilities
    note_writer: str

    def meeting(self, tier_id: str, options: MeetingOptions) -> pricing.Quote:
        """Price a meeting.

        Raises:
            NotFound: the tier is unknown or retired.
            Unprocessable: the provider cannot do what is requested.
        """
        return estimate_meeting(tier_id, options, self.catalogue, self.abilities)

    def notulen(self, minutes: int) -> pricing.Quote:
        """Price the notes of so many minutes; `Unprocessable` above the largest possible balance."""
        return self.catalogue.quote_notulen(minutes * 60, is_by_rules=self.note_writer == notes.BY_RULES)


@frozen
class ConsolePrices:
    """The prices as they are in force in this process."""

    catalogue: pricing.TierCatalogue
    provider: video_provider.VideoProvider
    registry: requests.Registry

    async def list_prices(
        self, who: views.SignedInOperator
    ) -> tuple[pricing.TierCatalogue, Sequence[pricing.PricingTier]]:
        """Return the catalogue, retired tiers included, and the tiers on sale that no host can carry now."""
        roles.check_operator_allowed(who.operator.role, roles.OperatorAction.VIEW_PRICES)
        if not self.provider.abilities.has_hosts:
            return self.catalogue, ()
        hosts = await self.registry.list_hosts()
        return self.catalogue, tiers_without_host(self.catalogue.on_sale(), hosts)
