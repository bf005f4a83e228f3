"""Members, their sign-in and operators in every store."""

from meetcore.testing.contracts import (
    MemberRepositoryContract,
    OperatorRepositoryContract,
    PasskeyRepositoryContract,
    ProposalRepositoryContract,
    SignInRepositoryContract,
)


class TestMembers(MemberRepositoryContract):
    """In memory and in Postgres."""


class TestSignIn(SignInRepositoryContract):
    """In memory and in Postgres."""


class TestOperators(OperatorRepositoryContract):
    """In memory and in Postgres."""


class TestPasskeys(PasskeyRepositoryContract):
    """In memory and in Postgres."""


class TestProposals(ProposalRepositoryContract):
    """In memory and in Postgres."""
