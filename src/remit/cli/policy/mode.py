"""`remit mode`: observe, warn or enforce."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from remit.cli.output import command_options, emit, governed_gate, warn
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.core.decision import Mode
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.gate.containment.agent_permissions import describe_rules
from remit.gate.governing.settings import set_mode
from remit.provenance.stats.mode_suggestion import RefusableCalls, find_refusable_calls
from remit.wiring.agents import find_user_place
from remit.wiring.doctor_checks import describe_containment_warning
from remit.wiring.hook_switches import find_hook_switches, list_wired_agents
from remit.wiring.manifest import read_manifest

if TYPE_CHECKING:
    from remit.gate.gate import Gate

MODE_DESCRIPTIONS: dict[Mode, str] = {
    "observe": "all passes and is recorded; only what nothing brings back needs a yes",
    "warn": "as observe; and the agent is told what enforce would refuse",
    "enforce": "changes need an intent, and stay in its scope",
}


FIRST_WORDS = (
    "  An agent selects an intent before it changes anything; a change outside its scope is refused, with the reason.",
    "  Commands run in a sandbox: what they change outside the scope does not stay, and the agent is told.",
    "  What you do yourself is not refused.",
)


@click.command()
@click.argument("mode", type=click.Choice([*MODE_DESCRIPTIONS, "suggest"]), required=False)
@command_options
def mode(mode: Mode | Literal["suggest"] | None, repo: Path, as_json: bool) -> None:
    """Show the mode, or set it; `suggest` tells what enforce would have refused so far."""
    gate = governed_gate(repo)
    if mode == "suggest":
        suggest_mode(gate, as_json)
        return
    if mode is not None:
        modes = list(MODE_DESCRIPTIONS)
        is_lower = gate.rules.config_error or modes.index(mode) < modes.index(gate.rules.mode)
        require_person(Act.LOWER_MODE if is_lower else Act.RAISE_MODE)
        set_mode(gate.workspace, mode)
    rules, environment = gate.rules, gate.environment
    if rules.config_error:
        warn(f"{rules.config_error}; until it is mended, every change is refused")
    elif rules.document is not None and rules.document.errors:
        warn("a file of intents has errors, and changes under its intents are refused: see `remit intent lint`")
    elif rules.mode == "enforce" and not rules.open_intents:
        warn("no intent is open, so agents can change nothing: make one with `remit intent new NAME --scope GLOB`")
    if rules.mode == "enforce" and (text := describe_containment_warning(environment.home, environment.temporary)):
        warn(text)
    if rules.mode == "enforce":
        manifest = read_manifest(environment.home)
        user = find_user_place(environment.home, os.environ, manifest)
        for switch in find_hook_switches(list_wired_agents(manifest), user, gate.workspace.root, os.environ):
            warn(f"{switch}: nothing is enforced there")
    own_rules: list[str] = []
    for row in ROWS.values() if mode == "enforce" else ():
        folder = environment.config_folders.get(row.agent) or environment.home / row.config_folder
        if Path(folder).is_dir() and (text := describe_rules(row, gate.workspace.root, environment)):
            own_rules.append(f"  {row.title}: {text}")
    lines = [f"{rules.mode}: {MODE_DESCRIPTIONS[rules.mode]}", *(FIRST_WORDS if mode == "enforce" else ()), *own_rules]
    emit({"mode": rules.mode, "own_rules": own_rules}, as_json, lines)


def suggest_mode(gate: "Gate", as_json: bool) -> None:
    found = find_refusable_calls(gate.workspace.log_folder)
    # The number of refused calls inside each open intent's scope, largest first.
    scopes = {intent.id: Scope(intent.owned_scope) for intent in gate.rules.open_intents}
    counts = {name: sum(all(map(scope.matches, paths)) for paths in found.loose) for name, scope in scopes.items()}
    covered = dict(sorted(((name, count) for name, count in counts.items() if count), key=lambda pair: -pair[1]))
    advice = next_step(found, covered)
    data = {**msgspec.to_builtins(found), "within": covered, "mode": gate.rules.mode, "next": advice}
    del data["loose"]
    lines = [f"{found.calls} calls were let through without enforcing; enforce would have refused {found.refused}"]
    if found.asked:
        lines.append(f"and asked a person about {found.asked}")
    lines += [f"  {count:>5}  {rule}" for rule, count in found.by_rule.items()]
    lines += [f"         {sanitise_line(example, 160)}" for example in found.examples]
    lines += [f"{count} of them pass once the agent selects {name}" for name, count in list(covered.items())[:5]]
    emit(data, as_json, [*lines, advice])


def next_step(found: RefusableCalls, covered: dict[str, int]) -> str:
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
