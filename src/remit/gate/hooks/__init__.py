"""Hooks: a team's own hooks, registered checks and verification commands."""
