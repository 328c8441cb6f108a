"""The journal of a run: the file, the lines, and the history folded from the lines."""
