"""A person's look at looser rules that git brought: what they are, and the yes that lets them hold."""

from msgspec.structs import replace

from remit.core.record import Body
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing import Rules, accept_rules, read_rules
from remit.workspace.git.repository import current_branch

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
