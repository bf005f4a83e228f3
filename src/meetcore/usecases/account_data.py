"""What an account may ask for its data: all of it as a file, and its erasure."""

from attrs import evolve, frozen

from meetcore.domain.members.audit import ActionOrigin
from meetcore.usecases.erase_account import EraseAccount
from meetcore.usecases.export_account import ExportAccount


@frozen
class AccountData:
    """The use cases of an account's data as a whole."""

    export: ExportAccount
    erase: EraseAccount

    def acting_as(self, origin: ActionOrigin) -> "AccountData":
        """The same use cases, on behalf of somebody."""
        return evolve(self, export=self.export.acting_as(origin), erase=self.erase.acting_as(origin))
