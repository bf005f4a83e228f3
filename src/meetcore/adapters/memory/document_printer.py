"""Documents in memory: what was to be printed, by account."""

from uuid import UUID

from attrs import asdict

from meetcore.ports.document_printer import MAX_CHARACTERS, Document, PrintingFailed


class MemoryDocumentPrinter:
    """Keeps documents instead of laying them out."""

    def __init__(self) -> None:
        self.printed: list[tuple[UUID, Document]] = []

    async def print_pdf(self, account_id: UUID, document: Document) -> bytes:
        content = repr(asdict(document))
        if len(content) > MAX_CHARACTERS:
            raise PrintingFailed(f"the document has more than {MAX_CHARACTERS} characters")
        self.printed.append((account_id, document))
        return b"%PDF-" + content.encode()
