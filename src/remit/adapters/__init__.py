"""TRANSLATE: an agent's words to ours and ours to its, by dialect and row. No I/O."""
