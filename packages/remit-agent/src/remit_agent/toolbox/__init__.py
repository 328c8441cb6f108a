"""The tools of the agent: one module a family, listed in `offer.py`."""
