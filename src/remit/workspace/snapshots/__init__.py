"""Snapshots of the working tree, and their restore."""
