"""Faces of the agent: the terminal, plain lines and ACP; with the opened run and the questions that they share."""
