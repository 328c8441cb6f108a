"""Trust: commands of a repository and looser rules that git brought, and what a person on the machine has said of them.
All but the texts raise OSError, and GitError where the repository has no name yet.
"""

from msgspec import json
from msgspec.structs import replace

from remit.core.call import SessionKey
from remit.core.config import TrustItem
from remit.core.diff.contents import sha256
from remit.core.record import Body
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing.rules import Rules, accept_rules, read_rules
from remit.gate.state.workspace_state import State
from remit.workspace.git.repository import current_branch

NOTICE_FACT = "untrusted_told"  # fact that holds which untrusted commands were reported to which sessions
SETTING_KINDS = (
    "generated",
    "data",
    "show",
    "push",
    "grant",
)  # settings that have no effect without trust; all others are commands
MAX_NOTICES = 50
MAX_NAMED = 5


def find_untrusted(context: WorkspaceContext, rules: Rules) -> tuple[TrustItem, ...]:
    digests = context.trusted_digests() if rules.repository_commands else ()
    return tuple(command for command in rules.repository_commands if command.digest not in digests)


def describe_untrusted(found: tuple[TrustItem, ...]) -> str:
    commands = exclude_settings(found)
    parts = [f"{len(commands)} commands of this repository are not trusted, and do not run"] if commands else []
    grants = sum(one.kind == "grant" for one in found)
    if grants:
        parts.append(f"{grants} [[grants]] of remit.toml are not trusted, and waive nothing")
    for one in found:
        if one.kind in SETTING_KINDS and one.kind != "grant":
            name = sanitise_line(one.name)
            parts.append(f"{name} is not trusted, and has no effect ({sanitise_line(one.text, 200)})")
    return "; ".join(parts)


def exclude_settings(found: tuple[TrustItem, ...]) -> tuple[TrustItem, ...]:
    return tuple(one for one in found if one.kind not in SETTING_KINDS)


def untrusted_notice(found: tuple[TrustItem, ...]) -> str:
    """Return the message to a session about untrusted commands, or an empty text."""
    found = exclude_settings(found)
    if not found:
        return ""
    names = dict.fromkeys(f"{sanitise_line(command.name, 80)} ({command.kind})" for command in found[:MAX_NAMED])
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return (
        "Remit: commands of this repository DO NOT RUN, since nobody on this machine has trusted them: "
        f"{', '.join(names)}{more}. "
        "Tell the person: `remit trust`, in a terminal, shows them and asks. Until then no hook looks at your calls, "
        "and a criterion with such a command counts as not run."
    )


def untrusted_notice_once(found: tuple[TrustItem, ...], state: State, session: SessionKey) -> str:
    """Return the notice unless the session was told of exactly these commands. Raises StateError."""
    notice = untrusted_notice(found)
    told = json.decode(state.read_fact(NOTICE_FACT) or "[]", type=list[str]) if notice else []
    mine = f"{sha256(''.join(command.digest for command in found).encode())[:16]} {session.session_id}"
    if not notice or mine in told:
        return ""
    state.put_fact(NOTICE_FACT, json.encode([*told[-MAX_NOTICES:], mine]).decode())
    return notice


TOLD_FACT = "looser_rules_told"


def describe_loosened(context: WorkspaceContext, rules: Rules) -> str:
    """Return the notice of looser rules that do not hold: fixed words, ids, and the branch's name; "" without any."""
    if not rules.loosened:
        return ""
    branch = sanitise_line(current_branch(context.workspace) or "", 80)
    where = f"the branch {branch} brings" if branch else "this checkout brings"
    what = "; ".join(dict.fromkeys(what for what, _ in rules.loosened))
    return (
        f"Remit: {where} looser rules ({sanitise_line(what, 300)}). In force: the ones that the person accepted. "
        "For the person: `remit rules diff` shows both, `remit rules accept` lets the new ones hold."
    )


def describe_loosened_once(context: WorkspaceContext, rules: Rules, reader: str) -> str:
    """Return the notice unless this reader, the model or the person, was told of exactly these rules. Raises
    StateError.
    """
    text = describe_loosened(context, rules)
    fact = f"{TOLD_FACT}:{reader}"
    if not text or context.state.read_fact(fact) == rules.digest:
        return ""
    context.state.put_fact(fact, rules.digest)
    return text


def accept_found_rules(context: WorkspaceContext) -> None:
    """Let the rules hold that the files have, record that, and compare them with what was recorded before. Raises
    RECORDING_ERRORS.
    """
    rules = context.rules
    accept_rules(context.workspace, replace(read_rules(context.workspace), digest=rules.digest), by_person=True)
    changes = [sanitise_line(change, 300) for _, change in rules.loosened]
    detail: dict[str, object] = {"name": "accepted rules", "to": "; ".join(changes), "by": "person"}
    body = Body(event="setting_changed", intent_id=None, session_id=None, detail=detail)
    context.recorder.append([context.recorder.make_record(body, "person")])
    context.state.put_fact("intents_sha256", "")
    context.notice_rules(context.rules)
