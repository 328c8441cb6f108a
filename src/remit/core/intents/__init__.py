"""Intents of a file: lookup, validation, life cycle, constraints, the context block for agents."""
