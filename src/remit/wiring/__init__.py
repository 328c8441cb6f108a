"""WIRE: find agents, plan and merge the required settings into their files, and remove them again."""
