"""Interpret."""
