"""Containment."""
