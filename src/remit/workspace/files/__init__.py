"""Safe reading, writing and locking of single files."""
