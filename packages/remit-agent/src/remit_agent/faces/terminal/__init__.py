"""Remit's own agent in a terminal: finished blocks are printed once, a few live lines stay below them."""
