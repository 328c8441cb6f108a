"""Team hooks."""
