"""Hook entries in agents' settings, with the shell fallback for a missing client."""

from typing import Literal, TypeAlias

from remit.adapters.agent_row import AgentRow, RowEvent

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
    return {
        name: [build_hook_group(row, client, HOOK_CLASSES.get(event, "note"), extra)]
        for name, event in row.events.items()
    }


def build_hook_group(row: AgentRow, client: str, kind: HookClass, extra: dict[str, str]) -> dict[str, object]:
    """Return one entry of an event: a handler for all tools."""
    handler = {
        "type": "command",
        **extra,
        "command": build_hook_command(row.agent, client, kind),
        "timeout": row.max_timeout,
    }
    return {**({} if kind == "note" else {"matcher": "*"}), "hooks": [handler]}


def build_hook_command(agent: str, client: str, kind: HookClass) -> str:
    return f"{client} {agent} {kind} || {FALLBACK_SHELL if kind == 'pre' else 'true'}"
