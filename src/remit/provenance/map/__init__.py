"""Intent map: `intent_map.md`, the intents with their changed files and definitions."""
