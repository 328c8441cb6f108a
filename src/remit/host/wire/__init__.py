"""What carries a model to an agent: one file a wire format."""
