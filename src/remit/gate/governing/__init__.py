"""Governing: the rules in force in a workspace, the lives of its intents, and which workspace governs a call."""
