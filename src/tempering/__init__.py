"""Importance tempering."""
