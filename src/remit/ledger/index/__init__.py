"""The index of the log: an SQLite file for searches, built from the log and deleted without loss."""

INDEX_FILE = "index.db"
