"""Authorship notes: written from attributions, kept up to date, audited."""
