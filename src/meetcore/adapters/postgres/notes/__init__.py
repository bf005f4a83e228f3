"""Notes: their queue, the transcripts made for them, and their money."""
