"""EXPLAIN: which record wrote each line, by contents and records."""
