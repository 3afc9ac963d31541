"""Tempered sequential Monte Carlo: populations carried from hot to cold, every one of them kept."""
