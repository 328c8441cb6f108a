"""Remit: a coding agent acts within its remit, and every line it leaves can say why it is there."""
