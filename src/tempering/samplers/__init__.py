"""Package samplers."""
