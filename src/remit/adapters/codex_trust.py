"""Trust entries for Codex CLI, which silently skips hooks without a trusted hash.

Source: Codex CLI 0.169.0, run with computed hashes for hooks of the user and of a project, read 2026-11.
"""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from remit.adapters.payload import JsonObject
from remit.core.json_guards import as_array, as_object

DEFAULT_TIMEOUT_S = 600


def compute_codex_trust(hooks_file: str, settings: Mapping[str, object]) -> JsonObject:
    """Return the content of `config.toml` that makes Codex run the hooks of `settings`.

    `settings` is the whole content of `hooks_file`, an absolute path: Codex trusts a hook by its position in the file,
    `{"hooks": {"state": {"<file>:<event>:<group>:<handler>": {"trusted_hash": "sha256:…"}}}}`.
    """
    state: JsonObject = {}
    for event, groups in as_object(settings.get("hooks")).items():
        for n, group in enumerate(as_array(groups)):
            for m, handler in enumerate(as_array(as_object(group).get("hooks"))):
                key = f"{hooks_file}:{to_snake_case(event)}:{n}:{m}"
                state[key] = {"trusted_hash": compute_hook_hash(event, as_object(group), as_object(handler))}
    return {"hooks": {"state": state}}


def to_snake_case(event: str) -> str:
    """Return `PreToolUse` as `pre_tool_use`."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower()


def compute_hook_hash(event: str, group: JsonObject, handler: JsonObject) -> str:
    """Return the hash of a handler: SHA-256 of its canonical JSON with default values filled in."""
    effective: JsonObject = {
        "async": handler.get("async", False),
        "command": handler.get("command"),
        "timeout": handler.get("timeout", DEFAULT_TIMEOUT_S),
        "type": handler.get("type"),
        **({"statusMessage": handler["statusMessage"]} if "statusMessage" in handler else {}),
    }
    matcher: JsonObject = {"matcher": group["matcher"]} if "matcher" in group else {}
    identity = {"event_name": to_snake_case(event), **matcher, "hooks": [effective]}
    return "sha256:" + hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
