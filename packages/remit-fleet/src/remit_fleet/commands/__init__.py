"""Commands for plans, their tasks, workers, and the fleet."""
