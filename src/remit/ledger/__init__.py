"""REMEMBER: the append-only machine log, its hash chain, and an index that may be deleted."""
