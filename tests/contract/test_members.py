"""Members, their sign-in and operators in every store."""

from meetcore.testing.contracts import (
    MemberRepositoryContract,
    OperatorRepositoryContract,
    SignInRepositoryContract,
)


class TestMembers(MemberRepositoryContract):
    """In memory and in Postgres."""


class TestSignIn(SignInRepositoryContract):
    """In memory and in Postgres."""


class TestOperators(OperatorRepositoryContract):
    """In memory and in Postgres."""
