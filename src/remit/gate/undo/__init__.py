"""Undo: snapshots, what a call must not have changed, and the ways back."""
