"""`remit why`: the cause of a line, and what was said about it."""
