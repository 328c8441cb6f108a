"""REMEMBER: the append-only machine log, its chain, and the index that can be deleted."""
