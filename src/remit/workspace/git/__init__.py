"""git: commands, settings, refs, ignore rules, files of trees."""
