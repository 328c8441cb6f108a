"""Records of calls and their recorder, tree heads, and the checking and sharing of logs."""
