"""`wallet demo` plays an account; `wallet prove` proves every history, and fails when one is broken."""

from typing import Any
from uuid import uuid4

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from meetcore.domain.errors import InsufficientCredits

from ... import services


class Command(BaseCommand):
    """The command."""

    help = "demo: play an account. prove: prove every account's history."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the word."""
        parser.add_argument("what", choices=["demo", "prove"])

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the subcommand."""
        if options["what"] == "demo":
            self.demo()
        else:
            self.prove()

    def demo(self) -> None:
        """Top up, buy, be refused, give back."""
        account_id, now = uuid4(), timezone.now()
        services.open_account(account_id)
        self.stdout.write(f"account {account_id}")
        self.stdout.write(f"topped up: {services.top_up(account_id, 'INV-1', 100, now)}")
        self.stdout.write(f"the same invoice again: {services.top_up(account_id, 'INV-1', 100, now)}")
        self.stdout.write(f"bought for 70: {services.buy(account_id, 'o-1', 70, now)}")
        try:
            services.buy(account_id, "o-2", 31, now)
        except InsufficientCredits as refusal:
            self.stdout.write(refusal.message)
        self.stdout.write(f"given back: {services.refund(account_id, 'o-1', now)}")

    def prove(self) -> None:
        """Prove, and name what is broken."""
        broken = list(services.unproven())
        for account_id, number in broken:
            self.stdout.write(f"{account_id}: entry {number} is not what was posted")
        if broken:
            raise CommandError(f"{len(broken)} accounts are not proven")
        self.stdout.write("every account is proven")
