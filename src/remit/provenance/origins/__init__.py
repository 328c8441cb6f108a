"""Who wrote a line: the labels of versions, from contents and records."""
