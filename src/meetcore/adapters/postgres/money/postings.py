"""Entries of several accounts, appended by one statement where the funds are those that were decided on.

Each kind of row is one parameter, a JSON array of objects by the names of the table's columns: a statement has a
handful of parameters however many rows it writes, and the driver has little to convert.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from uuid import UUID

import msgspec

from meetcore.adapters.postgres import columns, repository
from meetcore.adapters.postgres.members.audit import AUDIT_ENTRY, audit_row
from meetcore.adapters.postgres.money.rows import ENTRY, FUNDS, MONEY, TRANSFER, entry, system_book
from meetcore.adapters.postgres.webhooks.rows import event_row
from meetcore.domain.errors import NotFound, require_record
from meetcore.domain.ids import first_id
from meetcore.domain.money import ledger, views
from meetcore.domain.money.proposals import Proposal, ProposalKind
from meetcore.domain.webhooks.events import Event


class PostgresPostingRepository(repository.Repository):
    """Top-ups and adjustments, several at once."""

    async def load_locked(self, account_id: UUID, operations: Sequence[str]) -> views.OperationsView:
        named = {"account_id": account_id, "operations": list(operations)}
        rows = await self._all(SQL["load_posting"], named)
        if rows and rows[0]["seen_version"] != rows[0]["version"]:  # see `Repository._locked`
            rows = await self._all(SQL["load_posting"], named)
        if not rows:
            raise NotFound("No account with this id.")
        found = [made for row in rows if (made := entry(row)) is not None]
        return views.OperationsView(FUNDS.read(rows[0]), {each.transfer.operation: each for each in found})

    async def append_if_unchanged(self, postings: Sequence[views.AccountPostings]) -> Mapping[UUID, int]:
        rows = await self._all(SQL["append_if_unchanged"], self.parameters(postings))
        return {row["account_id"]: row["due"] for row in rows}

    def parameters(self, postings: Sequence[views.AccountPostings]) -> columns.Row:
        """Return the parameters of `append_if_unchanged`."""
        entries = [each for posting in postings for each in posting.entries]
        events = [self._event_row(each) for posting in postings for each in posting.events]
        return {
            "funds_read": _encode([_of_texts(FUNDS.row(posting.before)) for posting in postings]),
            "funds_after": _encode([_of_texts(FUNDS.row(posting.after)) for posting in postings]),
            "transfers": _encode(
                [TRANSFER.row(each.transfer) | {"account_id": each.account_id} for each in entries]
            ),
            "legs": _encode(list(chain.from_iterable(map(_leg_rows, entries)))),
            "actions": _encode([audit_row(each) for posting in postings for each in posting.actions]),
            "events": _encode(events),
        }

    def _event_row(self, event: Event) -> columns.Row:
        row = event_row(event, self._cipher)
        return row | {"payload": _hex(row["payload"])}


def _leg_rows(entry: ledger.Entry) -> tuple[columns.Row, columns.Row]:
    """Both legs of a transfer: the customer's, with the balance after it and the hash, and the system's."""
    leg = ENTRY.row(entry) | {"transfer_id": entry.transfer.id, "chain_key": entry.key_id or None}
    own = {"balance_after": None, "hash": None, "chain_key": None}
    return (
        _of_texts(leg | {"book": "customer"}),
        leg | own | {"book": system_book(entry), "amount": -entry.amount},
    )


def _of_texts(row: columns.Row) -> columns.Row:
    """Return a row whose bytes are texts, as JSON has them."""
    return {name: _hex(value) if isinstance(value, bytes) else value for name, value in row.items()}


def _hex(value: bytes) -> str:
    """Return bytes as the server reads them of a text."""
    return f"\\x{value.hex()}"


def _encode(rows: Sequence[columns.Row]) -> str:
    return msgspec.json.encode(rows).decode()


PROPOSAL = columns.Columns(Proposal, "p", "proposal_")

SQL = repository.load_statements(
    __file__, **MONEY, AUDIT_ENTRY=AUDIT_ENTRY, PROPOSAL=PROPOSAL, SAME_FUNDS=FUNDS.equal("a", "w"),
)  # fmt: skip


class PostgresProposalRepository(repository.Repository):
    """Proposals, written and decided under the account's lock."""

    async def add(self, proposal: Proposal) -> None:
        await self._run(SQL["add_proposal"], PROPOSAL.parameters(proposal))

    async def find_by_reference(
        self, account_id: UUID, kind: ProposalKind, reference: str
    ) -> Proposal | None:
        named = {"account_id": account_id, "kind": kind.value, "reference": reference}
        return await self._find(PROPOSAL, SQL["find_proposal"], named)

    async def lock_mover(self, operator_id: UUID) -> None:
        await self._run(SQL["lock_mover"], id=operator_id)

    async def moved_alone(self, operator_id: UUID, email: str, account_id: UUID, since: datetime) -> int:
        row = await self._one(
            SQL["moved_alone"], operator_id=operator_id, email=email, account_id=account_id,
            first=first_id(since),
        )  # fmt: skip
        assert row is not None  # an aggregate
        return int(row["moved"])

    async def load(self, proposal_id: UUID) -> Proposal:
        await self._run(SQL["lock_account_of_proposal"], id=proposal_id)
        row = require_record(await self._one(SQL["load_proposal"], {"id": proposal_id}), "proposal")
        return PROPOSAL.read(row)

    async def save_decision(self, proposal: Proposal) -> None:
        await self._run(SQL["save_decision"], PROPOSAL.parameters(proposal))

    async def mark_replaced(self, proposal_id: UUID) -> None:
        await self._run(SQL["mark_replaced"], {"id": proposal_id})
