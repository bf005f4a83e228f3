"""Every store port in the memory of the process: for tests, for embedding, and as a fallback."""
