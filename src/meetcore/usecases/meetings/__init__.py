"""Use cases of meetings: made, cancelled, reconciled with the provider."""
