"""Code."""
