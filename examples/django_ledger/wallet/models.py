"""The two tables of the ledger, and what the database itself refuses.

Owns storing funds and entries and reading them back as the domain's values. It decides nothing: a field is
written here, never computed.
"""

from django.db import models
from django.db.models import F, Q

from meetcore.domain.money.ledger import GENESIS, Book, Entry, Funds, Reference, Transfer, TransferKind

__all__ = ["Account", "EntryRow"]


class Account(models.Model):
    """The funds of one account. Its row is the account's lock."""

    id = models.UUIDField(primary_key=True)
    balance = models.BigIntegerField(default=0)
    held = models.BigIntegerField(default=0)
    low_threshold = models.BigIntegerField()
    is_low = models.BooleanField()
    entries = models.BigIntegerField(default=0)
    last_hash = models.BinaryField(default=GENESIS, max_length=32)
    last_at = models.DateTimeField(null=True)

    class Meta:  # noqa: D106 - Django's own
        # The rules never violate this; a query by hand may.
        constraints = (models.CheckConstraint(name="held_not_negative", condition=Q(held__gte=0)),)

    def __str__(self) -> str:
        return f"{self.id}: {self.balance} credits"

    def funds(self) -> Funds:
        """What the ledger decides on."""
        return Funds(
            self.id,
            self.balance,
            self.held,
            self.low_threshold,
            self.is_low,
            self.entries,
            bytes(self.last_hash),
            self.last_at,
        )

    def take_over(self, funds: Funds) -> None:
        """Save what was decided."""
        self.balance, self.held, self.is_low = funds.balance, funds.held, funds.is_low
        self.entries, self.last_hash, self.last_at = funds.entries, funds.last_hash, funds.last_at
        self.save()


class EntryRow(models.Model):
    """One entry with its transfer. Rows are added; the database itself refuses to change or delete them."""

    account = models.ForeignKey(Account, models.PROTECT)
    number = models.BigIntegerField()
    transfer_id = models.UUIDField()
    operation = models.CharField(max_length=255)
    kind = models.CharField(max_length=32)
    amount = models.BigIntegerField()
    source = models.CharField(max_length=32)
    destination = models.CharField(max_length=32)
    reference_type = models.CharField(max_length=255)
    reference_id = models.CharField(max_length=255)
    reverses = models.UUIDField(null=True)
    api_key_id = models.UUIDField(null=True)
    cap_day = models.DateField(null=True)
    balance_after = models.BigIntegerField()
    at = models.DateTimeField()
    hash = models.BinaryField(max_length=32)

    class Meta:  # noqa: D106 - Django's own
        # The last guard of "once", should a lock ever be missing. NULLs differ from one another, so that
        # only a refund takes the place of its charge.
        constraints = (
            models.UniqueConstraint(name="one_entry_a_number", fields=["account", "number"]),
            models.UniqueConstraint(name="one_transfer_an_id", fields=["account", "transfer_id"]),
            models.UniqueConstraint(name="one_transfer_an_operation", fields=["account", "operation"]),
            models.UniqueConstraint(name="one_refund_a_charge", fields=["account", "reverses"]),
            models.CheckConstraint(name="amount_positive", condition=Q(amount__gte=1)),
            models.CheckConstraint(name="two_books", condition=~Q(source=F("destination"))),
        )

    def __str__(self) -> str:
        return f"{self.account_id} {self.number}: {self.operation}"

    @classmethod
    def of(cls, entry: Entry) -> "EntryRow":
        """The row of an entry."""
        transfer = entry.transfer
        return cls(
            account_id=entry.account_id,
            number=entry.number,
            transfer_id=transfer.id,
            operation=transfer.operation,
            kind=transfer.kind.value,
            amount=transfer.amount,
            source=transfer.source.value,
            destination=transfer.destination.value,
            reference_type=transfer.reference.type,
            reference_id=transfer.reference.id,
            reverses=transfer.reverses,
            api_key_id=transfer.api_key_id,
            cap_day=transfer.cap_day,
            balance_after=entry.balance_after,
            at=entry.at,
            hash=entry.hash,
        )

    def transfer(self) -> Transfer:
        """The transfer of the row."""
        return Transfer(
            self.transfer_id,
            self.operation,
            TransferKind(self.kind),
            self.amount,
            Book(self.source),
            Book(self.destination),
            Reference(self.reference_type, self.reference_id),
            self.reverses,
            self.api_key_id,
            self.cap_day,
        )

    def entry(self) -> Entry:
        """The entry, for the proof."""
        transfer = self.transfer()
        return Entry(
            self.account_id,
            self.number,
            transfer,
            transfer.signed_amount,
            self.balance_after,
            self.at,
            bytes(self.hash),
        )
