"""Lengths and characters of customers' texts (rules 4.1/title, 4.1/description, 4.3/description)."""

from unicodedata import category

from attrs import frozen

__all__ = ["TextLimits"]

_TABS_AND_BREAKS = ("\t", "\n", "\r")


@frozen
class TextLimits:
    """The limits of a text, in code points. Tabs and line breaks are allowed where it `has_lines`."""

    max_length: int
    min_length: int = 0
    has_lines: bool = False

    def problems(self, text: str) -> list[str]:
        """Return every problem of a text; each continues a sentence that begins with the field's name."""
        problems = []
        if not self.min_length <= len(text) <= self.max_length:
            least = f"{self.min_length} to" if self.min_length else "at most"
            problems.append(f"must be {least} {self.max_length} characters long")
        allowed = _TABS_AND_BREAKS if self.has_lines else ()
        if any(category(char) in ("Cc", "Cs") and char not in allowed for char in text):
            problems.append("must not contain control characters or lone surrogates")
        return problems
