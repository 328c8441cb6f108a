"""What the text of a file is made of: its definitions, their hashes, and whether a change kept what it does.

Bytes in, values out. Grammars come with the extra `code`; without one its language is unknown, never guessed.
"""
