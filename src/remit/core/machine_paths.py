"""Places of a machine: Remit's own files, relative to the home folder, and folders in which every program may write."""

TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108  the places themselves, nothing is created there
"""Folders in which every program may write, beside the one that TMPDIR names."""


STATE_FOLDER = ".local/state/remit"
CLIENT_PATH = ".local/share/remit/bin/hook"
"""The hook client, with its settings beside it; `wiring.hook_client` puts both there."""
CONFIG_FOLDER = ".config/remit"
CONFIG_PATH = f"{CONFIG_FOLDER}/remit.toml"
"""Settings of the person, which no repository brings along."""
OFFERS_FOLDER = f"{STATE_FOLDER}/offers"
"""First answers about Remit's tools, by workspace: `servers.tool_offer`."""
KEY_PATH = f"{STATE_FOLDER}/key"
"""Signing key of the machine."""
MANIFEST_PATH = f"{STATE_FOLDER}/wired.json"
"""Manifest of wired agents, written by `wiring.manifest`."""
FLEET_PATH = f"{STATE_FOLDER}/fleet.db"
"""Embedded fleet database of a user, written by `orchestrator.database.store`."""
ATTEMPT_MARK = f"{STATE_FOLDER}/attempt"
"""File that exists only in the jail of a plan's agent, where the state folder is the attempt's own."""
