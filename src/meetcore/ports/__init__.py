"""Protocols of everything outside the domain, in the domain's terms."""
