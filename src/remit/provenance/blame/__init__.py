"""`remit blame`: what git says of each line, and who wrote it."""
