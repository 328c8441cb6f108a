"""Sessions of agents: their start and end, turn summaries, and pending messages."""
