"""Lay out documents as PDF by fpdf2, in child processes. Needs the extra `web`.

fpdf2 and its fonts take 70 MB and a second to load, so the service itself never imports them.
"""

from meetcore.adapters.pdf.printer import PdfPrinter

__all__ = ["PdfPrinter"]
