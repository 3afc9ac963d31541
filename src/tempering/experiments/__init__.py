"""Package experiments."""
