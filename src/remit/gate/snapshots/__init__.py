"""Snapshots of the working tree, and restores."""
