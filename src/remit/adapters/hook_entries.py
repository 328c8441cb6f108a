"""Hook entries in agents' settings, with the shell fallback for a missing client.

Trust entries for Codex CLI, which silently skips hooks without a trusted hash.

Source: Codex CLI 0.169.0, run with computed hashes for hooks of the user and of a project, read 2026-11.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from remit.adapters.payload import JsonObject
from remit.core.agents.row import AgentRow, RowEvent
from remit.core.untrusted_input import as_array, as_object

FALLBACK_SHELL = (
    '{ rmt() { [ -e "$1/enforce" ] && '
    "{ echo 'remit: the hook client did not answer, so this is refused; run: remit doctor' >&2; "
    "echo \"remit: if Remit is gone, a person installs it again, or ends this by: rm '$1/enforce'\" >&2; exit 2; }; "
    '[ -e "$1/governed" ] && exit 0; }; '
    "rmt_d=$(git -c 'safe.directory=*' rev-parse --git-common-dir 2>/dev/null) && rmt \"$rmt_d/remit\"; "
    'rmt_d=$(pwd -P); while [ -n "$rmt_d" ]; do '
    'rmt "$rmt_d/.git/remit"; rmt "$rmt_d/.orchestration/.state"; rmt_d=${rmt_d%/*}; done; exit 0; }'
)
"""Shell code that runs in the agent's folder if the hook client is missing or crashed.

Refuses if the nearest governed workspace is in enforce mode, otherwise lets the call pass. git finds the state folder
of a worktree, whoever owns the repository; the loop over parent folders serves workspaces without git and a PATH
without it. The variable names are unusual because some agents substitute variables of their own.
"""


HookClass: TypeAlias = Literal["pre", "post", "note"]

HOOK_CLASSES: dict[RowEvent, HookClass] = {"before": "pre", "after": "post", "failed": "post"}


def build_hooks(row: AgentRow, client: str, **extra: str) -> dict[str, object]:
    """Return Remit's hook entry for each event name of the agent. `extra` is added to each handler.

    `client` is the shell command of the hook client. A missing or crashed client refuses a call only before a tool and
    in enforce mode: after other events a non-zero exit code would do harm.
    """
    hooks: dict[str, object] = {}
    for name, event in row.events.items():
        kind = HOOK_CLASSES.get(event, "note")
        command = f"{client} {row.agent} {kind} || {FALLBACK_SHELL if kind == 'pre' else 'true'}"
        handler = {"type": "command", **extra, "command": command, "timeout": row.max_timeout}
        hooks[name] = [{**({} if kind == "note" else {"matcher": "*"}), "hooks": [handler]}]
    return hooks


DEFAULT_TIMEOUT_S = 600


def compute_hook_trust(hooks_file: str, settings: Mapping[str, object]) -> JsonObject:
    """Return the content of `config.toml` that makes Codex run the hooks of `settings`.

    `settings` is the whole content of `hooks_file`, an absolute path: Codex trusts a hook by its position in the file,
    `{"hooks": {"state": {"<file>:<event>:<group>:<handler>": {"trusted_hash": "sha256:…"}}}}`.
    """
    state: JsonObject = {}
    for event, groups in as_object(settings.get("hooks")).items():
        name = re.sub(r"(?<!^)([A-Z])", r"_\1", event).lower()  # `PreToolUse` is `pre_tool_use`
        for n, group in enumerate(map(as_object, as_array(groups))):
            for m, handler in enumerate(map(as_object, as_array(group.get("hooks")))):
                # SHA-256 of the handler's canonical JSON with default values filled in
                effective: JsonObject = {
                    "async": handler.get("async", False),
                    "command": handler.get("command"),
                    "timeout": handler.get("timeout", DEFAULT_TIMEOUT_S),
                    "type": handler.get("type"),
                    **({"statusMessage": handler["statusMessage"]} if "statusMessage" in handler else {}),
                }
                matcher: JsonObject = {"matcher": group["matcher"]} if "matcher" in group else {}
                identity = msgspec.json.encode({"event_name": name, **matcher, "hooks": [effective]}, order="sorted")
                digest = hashlib.sha256(identity).hexdigest()
                state[f"{hooks_file}:{name}:{n}:{m}"] = {"trusted_hash": f"sha256:{digest}"}
    return {"hooks": {"state": state}}
