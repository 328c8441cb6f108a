"""Effects of a call: what it changed, and which of the lines are its own."""
