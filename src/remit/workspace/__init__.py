"""TOUCH: the only code that reads or writes the user's files or runs git."""
