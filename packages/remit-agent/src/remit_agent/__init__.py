"""Remit's own agent: a model and its tools in a loop. `session/loop.py` first."""
