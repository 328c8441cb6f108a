"""What Codex CLI wants beyond its dialect: it skips, without a word, a hook whose hash it was not told to trust.

Source: Codex CLI 0.169.0, run with computed hashes for hooks of the user and of a project, read 2026-11.
"""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from remit.adapters.payload import JsonObject, as_list, as_mapping

DEFAULT_TIMEOUT_S = 600


def compute_codex_trust(hooks_file: str, settings: Mapping[str, object]) -> JsonObject:
    """What has to stand in `config.toml` for the hooks of `settings` to run, as that file would hold it.

    `settings` is the whole content of `hooks_file`, an absolute path, since a hook is trusted by its place in it:
    `{"hooks": {"state": {"<file>:<event>:<group>:<handler>": {"trusted_hash": "sha256:…"}}}}`.
    """
    state: JsonObject = {}
    for event, groups in as_mapping(settings.get("hooks")).items():
        for n, group in enumerate(as_list(groups)):
            for m, handler in enumerate(as_list(as_mapping(group).get("hooks"))):
                key = f"{hooks_file}:{to_snake_case(event)}:{n}:{m}"
                state[key] = {"trusted_hash": compute_hook_hash(event, as_mapping(group), as_mapping(handler))}
    return {"hooks": {"state": state}}


def to_snake_case(event: str) -> str:
    """`PreToolUse` as `pre_tool_use`."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower()


def compute_hook_hash(event: str, group: JsonObject, handler: JsonObject) -> str:
    """The hash of one handler: of its canonical JSON, with the values it has when it runs."""
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
