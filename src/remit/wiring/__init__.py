"""WIRE: find agents, plan, merge what they need into their settings, and take it out again."""
