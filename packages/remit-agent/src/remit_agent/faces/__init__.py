"""Shared parts of the agent's faces (terminal, plain lines, ACP, page): the opened run, questions and replies."""
