"""What the text of a file is made of: its definitions, their hashes, and whether a change kept what it does.

Bytes in, values out. A language without its grammar is unknown, never guessed.
"""
