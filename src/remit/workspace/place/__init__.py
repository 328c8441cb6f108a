"""Location, paths and configuration of a workspace."""
