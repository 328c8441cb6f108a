"""Commands that check, share and trim the ledger, and carry attribution in git."""
