"""The journal of a run: its file, its lines, and the history that the lines fold to."""
