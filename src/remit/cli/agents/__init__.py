"""Commands that wire agents into Remit, and check the wiring."""
