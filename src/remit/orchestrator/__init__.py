"""Several agents at once in one repository: plans, the proofs that keep them apart, and their running."""
