"""The tools of the agent, one module a family, listed in `session/offer.py`; and the one door to the gate."""
