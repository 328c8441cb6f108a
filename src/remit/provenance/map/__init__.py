"""`intent_map.md`: intents, their files, and the definitions that were touched."""
