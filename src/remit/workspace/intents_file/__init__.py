"""The intents file and `.intentignore`: reading, checking, editing."""
