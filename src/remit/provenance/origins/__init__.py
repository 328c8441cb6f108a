"""Origins: attributions of the lines of file versions, from contents and records."""
