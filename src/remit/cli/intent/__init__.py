"""Intent."""
