"""Source code: languages, definitions, imports, requirements, pattern searches, recognition of refactorings.

Bytes in, values out. A language without its grammar is unknown, never guessed.
"""
