"""Formats shared with other tools: notes, foreign records, proofs, trailers, JSON Schemas."""
