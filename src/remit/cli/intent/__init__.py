"""Commands about intents, and what sessions leave behind: lessons, todo lists, the intent map."""
