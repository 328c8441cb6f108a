"""Orchestrator: several agents at once in one repository, each within its intent, landed without a clash."""
