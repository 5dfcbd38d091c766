"""The version of all distributions. `python scripts/version.py X.Y.Z` sets it everywhere."""

__version__ = "0.1.0"
