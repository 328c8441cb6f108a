"""REMIT-AGENT: Remit's own agent; `loop.py` first."""
