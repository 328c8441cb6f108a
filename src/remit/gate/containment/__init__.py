"""Contained commands: rewriting the call, running in a sandbox, judging and applying the effects."""
