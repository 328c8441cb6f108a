"""Shared logs and authorship notes: refs and tracked files."""
