"""A scripted model and its wire formats, for running real agents in tests."""
