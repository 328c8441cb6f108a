"""The checks: one file, and one reason to refuse a call, each."""
