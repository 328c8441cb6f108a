"""The hooks that have to stand in an agent's settings.

What the agents' settings run where the hook client is missing, crashed, or could not decide.
"""

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
"""POSIX shell, run in the agent's folder: refuses where the nearest governed workspace is in enforce, else lets pass.

git knows the state folder of a worktree, whoever owns the repository; the folders above are for a workspace without
git, and for a PATH without it. The names are odd because some agents put variables of their own into their settings.
"""


HookClass: TypeAlias = Literal["pre", "post", "note"]

HOOK_CLASSES: dict[RowEvent, HookClass] = {"before": "pre", "after": "post", "failed": "post"}


def build_hooks(row: AgentRow, client: str, **extra: str) -> dict[str, object]:
    """By the agent's name of each event, the one command of Remit's. `extra` goes into each handler.

    `client` is the shell words that start the hook client. A client that is missing or crashes refuses where Remit
    enforces, and only before a tool: an exit code on any other event would do harm.
    """
    return {
        name: [build_hook_group(row, client, HOOK_CLASSES.get(event, "note"), extra)]
        for name, event in row.events.items()
    }


def build_hook_group(row: AgentRow, client: str, kind: HookClass, extra: dict[str, str]) -> dict[str, object]:
    """One entry of an event: all tools, one handler."""
    handler = {
        "type": "command",
        **extra,
        "command": build_hook_command(row.agent, client, kind),
        "timeout": row.max_timeout,
    }
    return {**({} if kind == "note" else {"matcher": "*"}), "hooks": [handler]}


def build_hook_command(agent: str, client: str, kind: HookClass) -> str:
    """The shell command of one hook."""
    return f"{client} {agent} {kind} || {FALLBACK_SHELL if kind == 'pre' else 'true'}"
