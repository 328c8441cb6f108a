"""Intents: reading, changing, selecting and completing them, with their lessons, templates and history."""
