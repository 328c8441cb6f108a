"""COMMANDS: one file a command."""
