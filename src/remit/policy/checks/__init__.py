"""One file a check; each says one reason to refuse a call."""
