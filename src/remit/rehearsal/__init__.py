"""REHEARSAL: a scripted model, and the wire formats by which real agents reach it without a network."""
