"""Observation of a workspace before and after a call."""
