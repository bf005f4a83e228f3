"""The inbox: stored events of providers."""
