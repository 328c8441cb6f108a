"""Place."""
