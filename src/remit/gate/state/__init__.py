"""State of a workspace between calls."""
