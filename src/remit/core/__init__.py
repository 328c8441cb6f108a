"""Nouns of Remit: frozen values and pure functions, without I/O."""
