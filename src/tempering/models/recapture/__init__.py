"""Integrated mark-recapture-recovery models, averaged over age and time structures."""
