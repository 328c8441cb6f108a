"""Verification: the recorded changes checked against rules, contents and a range of commits."""
