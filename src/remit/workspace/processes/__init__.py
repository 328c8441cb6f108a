"""Processes: identity, ancestors, likely writers, peers of a connection, limits of a trusted command."""
