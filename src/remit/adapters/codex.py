"""What Codex CLI wants beyond its dialect: it skips, without a word, a hook whose hash it was not told to trust.

Source: Codex CLI 0.169.0, run with computed hashes for hooks of the user and of a project, read 2026-11.
"""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from remit.adapters.reading import Object, mapping, sequence

DEFAULT_TIMEOUT_S = 600


def codex_trust(hooks_file: str, settings: Mapping[str, object]) -> Object:
    """What has to stand in `config.toml` for the hooks of `settings` to run, as that file would hold it.

    `settings` is the whole content of `hooks_file`, an absolute path, since a hook is trusted by its place in it:
    `{"hooks": {"state": {"<file>:<event>:<group>:<handler>": {"trusted_hash": "sha256:…"}}}}`.
    """
    state: Object = {}
    for event, groups in mapping(settings.get("hooks")).items():
        for n, group in enumerate(sequence(groups)):
            for m, handler in enumerate(sequence(mapping(group).get("hooks"))):
                key = f"{hooks_file}:{snake(event)}:{n}:{m}"
                state[key] = {"trusted_hash": hook_hash(event, mapping(group), mapping(handler))}
    return {"hooks": {"state": state}}


def snake(event: str) -> str:
    """`PreToolUse` as `pre_tool_use`."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower()


def hook_hash(event: str, group: Object, handler: Object) -> str:
    """The hash of one handler: of its canonical JSON, with the values it has when it runs."""
    effective: Object = {
        "async": handler.get("async", False),
        "command": handler.get("command"),
        "timeout": handler.get("timeout", DEFAULT_TIMEOUT_S),
        "type": handler.get("type"),
        **({"statusMessage": handler["statusMessage"]} if "statusMessage" in handler else {}),
    }
    matcher: Object = {"matcher": group["matcher"]} if "matcher" in group else {}
    identity = {"event_name": snake(event), **matcher, "hooks": [effective]}
    return "sha256:" + hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
