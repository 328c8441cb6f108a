"""Paths and path patterns: repository paths, globs, scopes, roles of files."""
