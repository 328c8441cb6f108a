"""Secrets: redaction, secret-like file names, regular expressions of bounded cost."""
