"""Context of a model besides the conversation: the tail of a request, changed files, and the limit of the window."""
