"""Commands for plans, which run several agents at once."""
