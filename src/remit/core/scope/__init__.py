"""Paths and path patterns: repository paths, globs, scopes proved apart, roles of files."""
