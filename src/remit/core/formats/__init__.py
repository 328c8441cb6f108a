"""Formats shared with other tools: authorship notes, foreign records, commit trailers, JSON Schemas, summaries."""
