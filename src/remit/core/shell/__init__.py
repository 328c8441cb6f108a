"""Shell text: simple commands, and permission rules of agents for commands."""
