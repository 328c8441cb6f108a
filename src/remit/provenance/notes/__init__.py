"""Authorship notes: written from labels, kept up, audited."""
