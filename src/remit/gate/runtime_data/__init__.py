"""Runtime data: which files are data, and what to propose as such."""
