"""What a model sees besides the conversation: the tail of a request, changed files, and what fits its window."""
