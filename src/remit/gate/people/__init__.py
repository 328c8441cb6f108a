"""People: what a person said of a call, a rule or a change, and what their word opens."""
