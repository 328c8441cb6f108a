"""Commands that read records: log, search, show, session, export."""
