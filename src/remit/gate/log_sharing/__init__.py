"""Sharing, checking and pruning of ledgers."""
