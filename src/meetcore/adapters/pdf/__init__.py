"""Documents as PDF, laid out by fpdf2 in a process of their own.

fpdf2 and its fonts take 70 MB and a second to load: the service itself never imports them. Needs the extra
`web`.
"""

from meetcore.adapters.pdf.printer import PdfPrinter

__all__ = ["PdfPrinter"]
