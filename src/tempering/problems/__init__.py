"""Package problems."""
