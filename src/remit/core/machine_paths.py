"""Paths of Remit's own files on a machine, relative to the home folder."""

STATE_FOLDER = ".local/state/remit"
KEY_PATH = f"{STATE_FOLDER}/key"
"""Signing key of the machine."""
MANIFEST_PATH = f"{STATE_FOLDER}/wired.json"
"""Manifest of wired agents, written by `wiring.manifest`."""
FLEET_PATH = f"{STATE_FOLDER}/fleet.db"
"""Embedded fleet database of a user, written by `orchestrator.database.store`."""
