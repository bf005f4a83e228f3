"""What work would cost (rule 4.1/5), by the rules that charge it."""

from attrs import frozen

from meetcore.domain.meetings.meetings import MeetingOptions, ProviderAbilities, estimate_meeting
from meetcore.domain.money.pricing import Quote, TierCatalogue


@frozen
class Estimate:
    """Prices work with the catalogue and the provider that would do it. Reads and writes nothing."""

    catalogue: TierCatalogue
    abilities: ProviderAbilities

    def meeting(self, tier_id: str, options: MeetingOptions) -> Quote:
        """Price a meeting.

        Raises:
            NotFound: the tier is unknown or retired.
            Unprocessable: the provider cannot do what is requested.
        """
        return estimate_meeting(tier_id, options, self.catalogue, self.abilities)

    def notulen(self, minutes: int) -> Quote:
        """Price the notes of a recording of so many minutes.

        Raises:
            Unprocessable: it would cost more than the largest possible balance.
        """
        return self.catalogue.quote_notulen(minutes * 60)
