"""Who may hold a connection to the console, and where its client is."""
