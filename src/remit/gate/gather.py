"""Step 4: everything a decision may depend on."""

from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.facts import DeniedPath, Facts, IntentsState, SessionFacts, Target
from remit.core.intent import Intent
from remit.core.scope.repopath import InvalidPath
from remit.gate.command_targets import find_command_targets
from remit.gate.environment import Environment
from remit.gate.rules.companions import mark_mirrored_files
from remit.gate.rules.load import Rules
from remit.gate.state.setbacks import Setbacks
from remit.gate.state.tickets import why_race_possible
from remit.gate.state.workspace_state import State
from remit.policy.checks.scope import owns_target
from remit.policy.classify import classify
from remit.policy.commands import analyse
from remit.policy.commands.sent_commits import find_sent_commits, is_unbranched_name
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.settings import find_programs
from remit.workspace.intents_file.intent_ignore import find_barred_paths
from remit.workspace.observe.observation import try_observe_file
from remit.workspace.place.paths import (
    MachinePlaces,
    add_content,
    folds_case,
    is_inside,
    resolve_real_paths,
    resolve_target,
    special_file_reason,
)
from remit.workspace.place.workspace import Workspace

MAX_DIFF_CHARS = 12_000
CUT_NOTE = "\n… (cut: read the file)"


class GatheredCall:
    """The call as it can be judged, and the facts. A path that can name no file makes the call malformed."""

    def __init__(self, call: ToolCall, facts: Facts) -> None:
        self.call = call
        self.facts = facts


def gather_facts(
    call: ToolCall, workspace: Workspace, rules: Rules, state: State, store: ContentStore, environment: Environment
) -> GatheredCall:
    """Collect the facts for `call`. Raises StateError, GitError, OSError."""
    session = state.active_session(call.session)
    call = mark_unproved_git(call)
    try:
        targets = resolve_targets(call, workspace, environment)
    except InvalidPath as error:
        call, targets = replace(call, malformed=str(error)), ()
    targets = tuple(observe_target(t, call, workspace, state, store) for t in targets)
    told = find_command_targets(call, workspace, environment)
    call, targets = told.call, (*targets, *told.targets)
    told_of = (*told.targets, *told.perhaps)
    if told_of and (moved := why_race_possible(call, told_of, state)):
        call = replace(call, unproved=call.unproved or moved)
    targets = mark_mirrored_files(targets, call, workspace, rules.intents.get(session.intent_id))
    perhaps = told.perhaps
    if call.command is not None and (targets or perhaps):
        intent = rules.intents.get(session.intent_id)
        targets, perhaps = (mark_generated(some, intent, workspace, state) for some in (targets, perhaps))
    now = environment.clock()
    pressure = Setbacks(state, now)
    denied: tuple[DeniedPath, ...] = ()
    if classify(call) == "destructive":
        targets = mark_leases(targets, call, state, now - rules.config.session.lease_s)
        denied = pressure.denied_paths(call.session, str(workspace.root), call.cwd, rules.config.session.detour_minutes)
    document = rules.document
    facts = Facts(
        mode=rules.mode,
        session=SessionFacts(session.intent_id, session.source, *pressure.count_in_a_row(call.session)),
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
    if facts.active is not None and facts.active.rules:
        from remit.gate.evidence.constraint_facts import (
            add_constraint_facts,  # the ledger's index is not opened for those who need it not
        )

        facts = add_constraint_facts(facts, call, workspace)
    return GatheredCall(call, facts)


def find_unjudged_commits(call: ToolCall, workspace: Workspace) -> tuple[str, ...]:
    """What the command's words have git send or check out, that no branch, tag or remote's branch leads to.

    A name that is not there yet may be a branch that the command makes: what that holds is judged with it.
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
            loose = git.text("rev-list", "--max-count=1", commit, "--not", *known, ok=(0, 128))
            found += [name] if loose else []
        elif is_unbranched_name(name):
            found.append(name)
    return tuple(found)


def mark_unproved_git(call: ToolCall) -> ToolCall:
    """The call; a git command that only reads is in doubt where the repository's own settings name programs."""
    if call.command is None or classify(call) != "safe" or "git" not in " ".join(analyse(call.command).reasons):
        return call
    named = find_programs(Path(call.cwd))
    return replace(call, unproved=f"git here would run what {named[0]} names") if named else call


def intents_state(rules: Rules) -> IntentsState:
    """Whether the intents file can be used."""
    if rules.document is None:
        return "missing"
    return "invalid" if rules.invalid else "ok"


def resolve_targets(call: ToolCall, workspace: Workspace, environment: Environment) -> tuple[Target, ...]:
    """The targets that the call's paths may name. Raises InvalidPath."""
    surroundings = MachinePlaces(environment.home, environment.temporary, environment.settings, environment.own_folders)
    folds = bool(call.paths) and folds_case(workspace.root)
    return tuple(
        replace(resolve_target(workspace, real, raw, surroundings), folds=folds)
        for raw in call.paths
        for real in resolve_real_paths(raw, Path(call.cwd), environment.home)
    )


def observe_target(found: Target, call: ToolCall, workspace: Workspace, state: State, store: ContentStore) -> Target:
    """The target with what is there now and what this session last saw there."""
    if found.path is None:
        return found
    file = workspace.root / found.path
    now = try_observe_file(file)
    seen = state.find_seen(call.session, found.path)
    changed = seen is not None and (now is None or now.version.sha256 != seen[0])
    diff = diff_since_seen(store, seen, now.content if now else b"") if changed and not call.checks_itself else ""
    looked = add_content(found, now, seen[0] if seen else None, diff)
    return (
        replace(looked, strange=special_file_reason(file))
        if call.effect == "write" and call.command is None
        else looked
    )


def mark_leases(targets: tuple[Target, ...], call: ToolCall, state: State, since: float) -> tuple[Target, ...]:
    """The targets, with the other session whose running call, begun after `since`, may change them."""
    return tuple(
        t if t.path is None else replace(t, leased_by=state.find_lease_holder(call.session, str(t.path), since))
        for t in targets
    )


def diff_since_seen(store: ContentStore, seen: tuple[str, str] | None, now: bytes | None) -> str:
    """What changed since the session saw it; empty where the old content is not at hand."""
    old = store.load(seen[1]) if seen else None
    if old is None or now is None:
        return ""
    diff = store.unified_diff(old, now)
    return diff if len(diff) <= MAX_DIFF_CHARS else diff[:MAX_DIFF_CHARS] + CUT_NOTE


def mark_generated(
    targets: tuple[Target, ...], intent: Intent | None, workspace: Workspace, state: State
) -> tuple[Target, ...]:
    """The targets of a command, those that it may write under any intent marked. Raises StateError."""
    beyond = [str(t.path) for t in targets if t.path is not None and intent is not None and not owns_target(intent, t)]
    if not beyond:
        return targets
    # For commands that write beyond the scope: it asks git.
    from remit.gate.rules.generated_files import GeneratedFiles, is_exempt_from_scope

    folders = [path for path in beyond if (workspace.root / path).is_dir()]
    found = GeneratedFiles.at_head(workspace, state).find_generated([p for p in beyond if p not in folders], folders)
    kept = {path for path, top in found.items() if is_exempt_from_scope(top)}
    return tuple(replace(t, generated=True) if t.path is not None and str(t.path) in kept else t for t in targets)


def mark_ignored(targets: tuple[Target, ...], workspace: Workspace, rules: Rules) -> tuple[Target, ...]:
    """The targets, those that `.intentignore` bars marked. Where git cannot be asked, all count as barred."""
    inside = [t.path for t in targets if t.path is not None]
    try:
        barred = find_barred_paths(workspace, rules.ignore, inside)
    except (GitError, OSError) as error:
        barred = dict.fromkeys(map(str, inside), f"git could not be asked: {error}"[:200])
    return tuple(replace(t, ignored_by=barred.get(t.path)) if t.path in barred else t for t in targets)
