"""An account as a decision on its money needs it."""

from attrs import frozen

from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Funds

__all__ = ["AccountState"]


@frozen
class AccountState:
    """The funds of an account, and the cap of one of its keys with its usage on a day.

    `version` names this state: what is decided on it is written only if nothing of the account has changed
    since. It is `None` under the account's lock, where nothing can have. `daily_cap` is credits, `None` for a
    key without a cap.
    """

    version: int | None
    funds: Funds
    usage: CapUsage
    daily_cap: int | None
