"""EXPLAIN: the read path. Which record put a line where it is."""
