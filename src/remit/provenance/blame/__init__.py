"""Blame: the author of each line that git blame reports."""
