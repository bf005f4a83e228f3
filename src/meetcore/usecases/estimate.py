"""What work would cost (spec 4.1 rule 5), by the rules that charge it."""

from attrs import frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.ledger import InvalidAmount
from meetcore.domain.meetings import MeetingOptions, ProviderAbilities, estimate_meeting
from meetcore.domain.pricing import Quote, TierCatalogue, quote_notulen

__all__ = ["Estimate"]


@frozen
class Estimate:
    """Prices work with the catalogue and the provider that would do it. Reads and writes nothing."""

    catalogue: TierCatalogue
    abilities: ProviderAbilities

    def meeting(self, tier_id: str, options: MeetingOptions) -> Quote:
        """Price a meeting.

        Raises:
            NotFound: the tier is unknown or retired.
            Unprocessable: the provider cannot do what is asked.
        """
        return estimate_meeting(tier_id, options, self.catalogue, self.abilities)

    def notulen(self, minutes: int) -> Quote:
        """Price the notes of a recording of so many minutes.

        Raises:
            Unprocessable: it would cost more credits than anybody can have.
        """
        try:
            return quote_notulen(self.catalogue.notulen_credits_per_minute, minutes * 60)
        except InvalidAmount as error:
            raise Unprocessable("Notes of this length cost more than can be charged.") from error
