"""Package tuning."""
