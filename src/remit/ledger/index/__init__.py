"""Index."""

INDEX_FILE = "index.db"
