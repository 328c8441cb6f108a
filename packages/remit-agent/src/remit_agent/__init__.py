"""Remit's own agent: a model and its tools in a loop. `loop.py` first."""
