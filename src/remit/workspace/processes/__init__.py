"""Processes: identity, likely writers, processes left running, trusted commands."""
