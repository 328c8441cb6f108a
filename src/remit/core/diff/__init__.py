"""Contents and their differences: hashes, edit scripts, edits of tools, patches."""
