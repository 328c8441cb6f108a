"""Proposals of how to cut work into parts that share no file."""
