"""Proposals for cutting work into parts without shared files."""
