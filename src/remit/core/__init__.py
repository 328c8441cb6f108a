"""NOUNS: frozen values and pure functions that every other room shares."""
