"""ENFORCE: the write path. Gather facts, decide, wait for a person, perform, record."""
