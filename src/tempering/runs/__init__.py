"""What a run returns, in memory or on disk, and the questions one asks of it."""
