"""Package estimators."""
