"""REMIT-AGENT: Remit's own agent; `session/loop.py` first."""
