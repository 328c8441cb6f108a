"""Undo."""
