"""Explanations of lines: cause, intent and conversation."""
