"""Step 4: gather the facts that a decision depends on."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.facts import DeniedPath, Facts, IntentsState, SessionFacts, Target
from remit.core.grant import escape_pattern
from remit.core.intent import Intent
from remit.core.scope.repopath import InvalidPath
from remit.gate.call_targets import find_command_targets, resolve_targets
from remit.gate.context import WorkspaceContext
from remit.gate.rules.load import Rules
from remit.gate.state.setbacks import Setbacks
from remit.gate.state.tickets import has_contained_command, has_uncontained_call
from remit.gate.state.workspace_state import State
from remit.policy.checks.scope import owns_target
from remit.policy.classify import classify
from remit.policy.commands import analyse
from remit.policy.commands.background import BACKGROUND_ARGUMENTS, leaves_process_running
from remit.policy.commands.sent_commits import find_sent_commits, is_unbranched_name
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.programs_in_settings import find_programs
from remit.workspace.intents_file.intent_ignore import find_barred_paths
from remit.workspace.observe.observation import try_observe_file
from remit.workspace.place.resolve_paths import add_content, is_inside, special_file_reason
from remit.workspace.place.workspace import Workspace

MAX_DIFF_CHARS = 12_000
CUT_NOTE = "\n… (cut: read the file)"


class GatheredCall(Struct, frozen=True):
    """A call with marks for judgement, and the facts; a call with a path that no file can have is marked malformed."""

    call: ToolCall
    facts: Facts


def gather_facts(context: WorkspaceContext, call: ToolCall, rules: Rules) -> GatheredCall:
    """Collect the facts for a call. Raises RECORDING_ERRORS."""
    workspace, state, environment = context.workspace, context.state, context.environment

    # 4.1 The session, and the intent that it works under.
    session = state.active_session(call.session)
    intent = rules.intents.get(session.intent_id)

    # 4.2 The files that the call names, with links followed, their content now, and what the session last saw there.
    perhaps: tuple[Target, ...] = ()
    try:
        targets = resolve_targets(call, workspace, environment)
    except InvalidPath as error:
        call, targets = replace(call, malformed=str(error)), ()
    targets = tuple(observe_target(context, target, call) for target in targets)

    # 4.3 The files that a command's text says it writes, unless another process may move them first.
    if call.command is not None:
        found = find_command_targets(mark_unproved_git(call), workspace, environment)
        call, targets, perhaps = found.call, (*targets, *found.targets), found.perhaps
        declared = (*found.targets, *found.perhaps)
        if declared and (race := explain_race(call, declared, state)):
            call = replace(call, unproved=call.unproved or race)

    # 4.4 Marks on the files: the sources that a test mirrors, generated files, ignored paths, leases.
    if intent is not None and intent.companions:
        # Imported here: few intents have companions, and finding them asks git.
        from remit.gate.rules.companions import mark_mirrored_files

        targets = mark_mirrored_files(targets, call, workspace, intent)
    if call.command is not None and (targets or perhaps):
        targets = mark_generated(targets, intent, workspace, state)
        perhaps = mark_generated(perhaps, intent, workspace, state)
    now = environment.clock()
    setbacks = Setbacks(state, now)
    denied: tuple[DeniedPath, ...] = ()
    if classify(call) == "destructive":
        targets = mark_leases(targets, call, state, now - rules.config.session.lease_s)
        denied = setbacks.denied_paths(call.session, str(workspace.root), call.cwd, rules.config.session.detour_minutes)

    document = rules.document
    facts = Facts(
        mode=rules.mode,
        session=SessionFacts(session.intent_id, session.source, *setbacks.count_in_a_row(call.session)),
        intents=rules.intents,
        intents_state=intents_state(rules),
        intents_findings=document.findings if document else (),
        config_error=rules.config_error,
        ignored_intents=rules.ignore.intents,
        targets=mark_ignored(targets, workspace, rules),
        perhaps=mark_ignored(perhaps, workspace, rules) if perhaps else (),
        denied=denied,
        temporary="" if is_inside(str(workspace.root), environment.temporary) else str(environment.temporary),
        unjudged=find_unjudged_commits(call, workspace),
    )

    # 4.5 What the files would hold afterwards, for intents with constraints.
    if facts.active is not None and facts.active.rules:
        # Imported here: only constraints need the ledger's index.
        from remit.gate.evidence.constraint_facts import add_constraint_facts

        facts = add_constraint_facts(facts, call, workspace)
    return GatheredCall(call, facts)


def observe_target(context: WorkspaceContext, target: Target, call: ToolCall) -> Target:
    """Return the target with the present content, and the content last seen by the session."""
    if target.path is None:
        return target
    file = context.workspace.root / target.path
    now = try_observe_file(file)
    seen = context.state.find_seen(call.session, target.path)
    has_changed = seen is not None and (now is None or now.version.sha256 != seen[0])
    diff = ""
    if seen is not None and has_changed and not call.checks_itself:
        diff = diff_since_seen(context, seen[1], now.content if now else b"")
    observed = add_content(target, now, seen[0] if seen else None, diff)
    if call.effect == "write" and call.command is None:
        return replace(observed, strange=special_file_reason(file))
    return observed


def diff_since_seen(context: WorkspaceContext, seen_blob: str, now: bytes | None) -> str:
    """Return the difference from the content seen by the session; empty if missing."""
    old = context.contents.load(seen_blob)
    if old is None or now is None:
        return ""
    diff = context.contents.unified_diff(old, now)
    return diff if len(diff) <= MAX_DIFF_CHARS else diff[:MAX_DIFF_CHARS] + CUT_NOTE


def mark_unproved_git(call: ToolCall) -> ToolCall:
    """Mark a harmless git command as unproved if the repository's settings name a program that git would run."""
    if call.command is None or classify(call) != "safe" or "git" not in " ".join(analyse(call.command).reasons):
        return call
    named = find_programs(Path(call.cwd))
    return replace(call, unproved=f"git here would run what {named[0]} names") if named else call


def explain_race(call: ToolCall, targets: Iterable[Target], state: State) -> str:
    """Return the reason for a possible race on the targets of a command; empty without a race.

    The paths are resolved before the command runs. A later write, or a concurrent command, may meet a link in place of
    a file, made by a command without harm in itself. Raises StateError.
    """
    if any(call.arguments.get(key) for key in BACKGROUND_ARGUMENTS) or leaves_process_running(call.command or ""):
        return "it writes in the background, where others may move what it writes to"
    is_outside = any(target.path is None for target in targets)
    if has_uncontained_call(call, state) or (is_outside and has_contained_command(state)):
        return "another command runs, and may move what this one writes to"
    return ""


def mark_generated(
    targets: tuple[Target, ...], intent: Intent | None, workspace: Workspace, state: State
) -> tuple[Target, ...]:
    """Mark generated files among the targets of a command: any intent may write them. Raises StateError."""
    outside = [str(t.path) for t in targets if t.path is not None and intent is not None and not owns_target(intent, t)]
    if not outside:
        return targets
    # Imported here: only commands that write outside the scope have git asked.
    from remit.gate.rules.scope_exempt_files import GeneratedFiles, is_exempt_from_scope

    folders = [path for path in outside if (workspace.root / path).is_dir()]
    files = [path for path in outside if path not in folders]
    found = GeneratedFiles.at_head(workspace, state).find_generated(files, folders)
    exempt = {path for path, top in found.items() if is_exempt_from_scope(top)}
    return tuple(replace(t, generated=True) if t.path is not None and str(t.path) in exempt else t for t in targets)


def mark_leases(targets: tuple[Target, ...], call: ToolCall, state: State, since: float) -> tuple[Target, ...]:
    return tuple(
        t if t.path is None else replace(t, leased_by=state.find_lease_holder(call.session, str(t.path), since))
        for t in targets
    )


def mark_ignored(targets: tuple[Target, ...], workspace: Workspace, rules: Rules) -> tuple[Target, ...]:
    """Mark the targets barred by `.intentignore`; without git's answer, every target."""
    inside = [t.path for t in targets if t.path is not None]
    try:
        barred = find_barred_paths(workspace, rules.ignore, inside)
    except (GitError, OSError) as error:
        barred = dict.fromkeys(map(str, inside), f"git could not be asked: {error}"[:200])
    return tuple(replace(t, ignored_by=barred.get(t.path)) if t.path in barred else t for t in targets)


def intents_state(rules: Rules) -> IntentsState:
    if rules.document is None:
        return "missing"
    return "invalid" if rules.invalid else "ok"


def find_unjudged_commits(call: ToolCall, workspace: Workspace) -> tuple[str, ...]:
    """Return commits sent or checked out by the command, but outside of every branch, tag and remote branch.

    An unknown name may be a branch made by the command: the branch is judged with the command.
    """
    names = find_sent_commits(call.command) if call.command and workspace.common_dir else ()
    if not names:
        return ()
    git = Git(workspace.root)
    found: list[str] = []
    for name in names:
        commit = git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1, 128))
        if commit:
            known = ("--branches", "--tags", "--remotes", "HEAD")
            unreachable = git.text("rev-list", "--max-count=1", commit, "--not", *known, ok=(0, 128))
            found += [name] if unreachable else []
        elif is_unbranched_name(name):
            found.append(name)
    return tuple(found)


def scope_at_decision(facts: Facts, decision: Decision) -> tuple[str, ...]:
    companions = [path for finding in decision.findings for path in finding.context.get("companions", ())]
    return (*facts.active.owned_scope, *map(escape_pattern, map(str, companions))) if facts.active else ()
