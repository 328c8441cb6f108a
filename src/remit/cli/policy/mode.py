"""`remit mode`: observe, warn or enforce."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from remit.adapters import ROWS
from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import require_person
from remit.core.decision import Mode
from remit.core.display_text import sanitise_line
from remit.core.intent import Intent
from remit.core.scope.globs import Scope
from remit.gate.approvals.agent_permissions import describe_rules
from remit.gate.rules.load import Rules
from remit.gate.rules.markers import set_mode
from remit.provenance.stats.mode_suggestion import RefusableCalls, find_refusable_calls
from remit.wiring.doctor_checks import describe_containment_warning

if TYPE_CHECKING:
    from remit.gate.gate import Gate

MODE_DESCRIPTIONS: dict[Mode, str] = {
    "observe": "all passes and is recorded; only what nothing brings back needs a yes",
    "warn": "as observe; and the agent is told what enforce would refuse",
    "enforce": "changes need an intent, and stay in its scope",
}


@click.command()
@click.argument("mode", type=click.Choice([*MODE_DESCRIPTIONS, "suggest"]), required=False)
@repo_option
@json_option
@reports_failures
def mode(mode: Mode | Literal["suggest"] | None, repo: Path, as_json: bool) -> None:
    """Show the mode, or set it; `suggest` tells what enforce would have refused so far."""
    gate = governed_gate(repo)
    if mode == "suggest":
        found, rules = find_refusable_calls(gate.workspace.log_folder), gate.rules
        covered = count_covered_calls(found, open_intents(rules))
        step = next_step(found, covered)
        data = {**msgspec.to_builtins(found), "within": covered, "mode": rules.mode, "next": step}
        del data["loose"]
        emit(data, as_json, "\n".join((*describe_refusals(found), *describe_covered(covered), step)))
        return
    if mode is not None:
        require_person("setting the mode")
        set_mode(gate.workspace, mode)
    rules = gate.rules
    around = gate.environment
    unstaged = describe_containment_warning(around.home, around.temporary) if rules.mode == "enforce" else ""
    for warning in (*mode_warnings(rules), *filter(None, [unstaged])):
        click.echo(f"warning: {warning}", err=True)
    own = own_rule_lines(gate) if mode == "enforce" else []
    emit(
        {"mode": rules.mode, "own_rules": own},
        as_json,
        "\n".join((f"{rules.mode}: {MODE_DESCRIPTIONS[rules.mode]}", *own)),
    )


def own_rule_lines(gate: "Gate") -> list[str]:
    """What was found of the person's own rules for the agents that have a folder of settings here, a line each."""
    around = gate.environment
    folders = {
        row.agent: around.config_folders.get(row.agent) or around.home / row.config_folder for row in ROWS.values()
    }
    rows = [row for row in ROWS.values() if Path(folders[row.agent]).is_dir()]
    return [f"{row.title}, {describe_rules(row, gate.workspace.root, around)}" for row in rows]


def mode_warnings(rules: Rules) -> list[str]:
    """What a person should know who looks at the mode."""
    if rules.config_error:
        return [f"{rules.config_error}; until it is mended, every change is refused"]
    document = rules.document
    if document is not None and document.errors:
        return ["active_intents.yaml has errors, so every change is refused: see `remit intent lint`"]
    if rules.mode == "enforce" and not open_intents(rules):
        return ["no intent is open, so agents can change nothing: make one with `remit intent new NAME --scope GLOB`"]
    return []


def describe_refusals(found: RefusableCalls) -> list[str]:
    """What enforce would have said, for people."""
    lines = [f"{found.calls} calls were let through without enforcing; enforce would have refused {found.refused}"]
    if found.asked:
        lines.append(f"and asked a person about {found.asked}")
    lines += [f"  {count:>5}  {rule}" for rule, count in found.by_rule.items()]
    lines += [f"         {sanitise_line(example, 160)}" for example in found.examples]
    return lines


def open_intents(rules: Rules) -> list[Intent]:
    """The intents that an agent may work under."""
    found = rules.document.intents if rules.document else ()
    return [intent for intent in found if intent.status in ("DRAFT", "IN_PROGRESS")]


def count_covered_calls(found: RefusableCalls, intents: Sequence[Intent]) -> dict[str, int]:
    """How many of the refused calls each open intent would have let pass, the most first."""
    scopes = {intent.id: Scope(intent.owned_scope) for intent in intents}
    counts = {name: sum(all(map(scope.matches, paths)) for paths in found.loose) for name, scope in scopes.items()}
    return dict(sorted(((name, count) for name, count in counts.items() if count), key=lambda pair: -pair[1]))


def describe_covered(covered: dict[str, int]) -> list[str]:
    """The same for people."""
    return [f"{count} of them pass once the agent selects {name}" for name, count in list(covered.items())[:5]]


def next_step(found: RefusableCalls, covered: dict[str, int]) -> str:
    """What to do about it."""
    if not found.calls:
        return "Nothing was recorded in observe or warn yet: work for a while, then ask again."
    if not found.by_rule:
        return "Nothing would have been refused: `remit mode enforce`."
    if max(covered.values(), default=0) * 2 > found.refused:
        return "Most of it lies within open intents: `remit mode warn` tells agents so, `remit mode enforce` holds it."
    if next(iter(found.by_rule)) == "active_intent":
        session = next(iter(found.sessions), "SESSION")
        return f"Most of it had no intent: `remit intent new NAME --from-session {session}` makes one for that work."
    return "Widen scopes where the work was right (`remit intent edit ID --add-scope GLOB`), then `remit mode warn`."
