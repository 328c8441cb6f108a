"""A session of the agent: the loop (`loop.py` first), its calls and context, and the journal that it resumes from."""
