"""Sealed values in memory: columns of values with what they are sealed for."""

from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence

from meetcore.ports.cipher import CipherRefused, KeyedCipher
from meetcore.ports.sealed_values import Resealed


class MemorySealedValues:
    """Values by column and context; the context is the place, too."""

    def __init__(self, values: Mapping[str, MutableMapping[str, bytes]], cipher: KeyedCipher) -> None:
        self._values = values
        self._cipher = cipher

    @property
    def columns(self) -> Sequence[str]:
        return list(self._values)

    @property
    def key_ids(self) -> Sequence[str]:
        return [each.hex() for each in self._cipher.key_ids]

    async def count(self, column: str, after: tuple[object, ...] | None, limit: int) -> Resealed:
        return self._portion(column, after, limit)[1]

    async def reseal(self, column: str, after: tuple[object, ...] | None, limit: int) -> Resealed:
        contexts, counted = self._portion(column, after, limit)
        values, first, resealed, unreadable = self._values[column], self.key_ids[0], 0, 0
        for context in contexts:
            if values[context][1:5].hex() == first:
                continue
            try:
                values[context] = self._cipher.seal(self._cipher.open(values[context], context), context)
                resealed += 1
            except CipherRefused:
                unreadable += 1
        return Resealed(counted.found, resealed, 0, unreadable, counted.after)

    def _portion(
        self, column: str, after: tuple[object, ...] | None, limit: int
    ) -> tuple[Sequence[str], Resealed]:
        values = self._values[column]
        contexts = sorted(each for each in values if after is None or each > str(after[0]))[:limit]
        found = Counter(values[context][1:5].hex() for context in contexts)
        return contexts, Resealed(found, after=(contexts[-1],) if len(contexts) == limit else None)
