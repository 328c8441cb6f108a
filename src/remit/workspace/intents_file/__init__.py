"""Intents file."""
