"""Rules about intents: validation, life, constraints, merging, strictness, the context block for agents."""
