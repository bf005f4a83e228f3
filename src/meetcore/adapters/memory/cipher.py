"""A cipher that hides nothing and still refuses a value in the wrong place: for tests only."""

from meetcore.ports.cipher import CipherRefused


class PlainCipher:
    """Writes the context before the value, and checks it when the value is opened."""

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        """One, for what each value has in the place of a key's id."""
        return (self._lead("")[1:5],)

    def key_id_of(self, sealed: bytes) -> bytes | None:
        """The one of every value that begins as a sealed one does."""
        return sealed[1:5] if sealed.startswith(b"plain:") else None

    def seal(self, plain: bytes, context: str) -> bytes:
        """The value behind its context."""
        return self._lead(context) + plain

    def open(self, sealed: bytes, context: str) -> bytes:
        """The value, if it was sealed for this context.

        Raises:
            CipherRefused: it was sealed for another, or never.
        """
        lead = self._lead(context)
        if not sealed.startswith(lead):
            raise CipherRefused("sealed for another context")
        return sealed[len(lead) :]

    @staticmethod
    def _lead(context: str) -> bytes:
        # With its length: else a value that begins like the end of a context would open under a longer one.
        return f"plain:{len(context)}:{context}\n".encode()
