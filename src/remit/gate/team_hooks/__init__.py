"""A team's own hooks, registered checks, verification commands, and constraints."""
