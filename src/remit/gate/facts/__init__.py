"""Facts that a decision depends on, gathered from the workspace and the machine."""
