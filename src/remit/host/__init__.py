"""RUN ONE: the scripted model provider, and later Remit's own agent."""
