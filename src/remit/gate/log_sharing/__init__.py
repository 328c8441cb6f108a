"""Log sharing."""
