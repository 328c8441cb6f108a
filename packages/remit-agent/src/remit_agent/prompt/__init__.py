"""The system prompt of the agent, and the fixed texts of its sections."""
