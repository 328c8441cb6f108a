"""Rules that people accepted: those that a clone carries, and those that a checkout may not loosen."""
