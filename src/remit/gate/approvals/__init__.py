"""Questions to a person, project grants, and the person's own permission rules for an agent."""
