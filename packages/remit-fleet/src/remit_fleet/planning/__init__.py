"""Planning of intents before any task runs. Pure: callers gather the repository's facts."""
