"""Files of coding agents: settings, permission rules, transcripts, the shared brain."""
