"""Commands of a fleet: plans, tasks, workers. The engine is imported once a command needs it."""
