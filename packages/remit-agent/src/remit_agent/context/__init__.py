"""Context of a model: the tail of a request, and a conversation condensed to fit the window."""
