"""NOUNS: frozen values and pure functions, without I/O."""
