"""From intents to plans, before anything runs. Pure: what the repository holds is gathered by callers."""
