"""Step 4: everything a decision may depend on."""

from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.facts import DeniedPath, Facts, IntentsState, SessionFacts, Target
from remit.core.intent import Intent
from remit.core.repopath import InvalidPath
from remit.gate.companions import with_mirrored
from remit.gate.environment import Environment
from remit.gate.governing import Governing
from remit.gate.pressure import Pressure
from remit.gate.state import State
from remit.gate.steady import why_unsteady
from remit.gate.written import written
from remit.policy.checks.scope import owns
from remit.policy.classify import classify
from remit.policy.commands import analyse
from remit.policy.commands.git_names import is_hidden, sent_commits
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git, GitError
from remit.workspace.git_settings import programs
from remit.workspace.ignore import barred_paths
from remit.workspace.observe import glance
from remit.workspace.paths import Surroundings, folds_case, real_paths, strangeness, target, with_content, within
from remit.workspace.place import Workspace

DIFF_CHARS = 12_000
CUT = "\n… (cut: read the file)"


class Gathered:
    """The call as it can be judged, and the facts. A path that can name no file makes the call malformed."""

    def __init__(self, call: ToolCall, facts: Facts) -> None:
        self.call = call
        self.facts = facts


def gather(
    call: ToolCall, workspace: Workspace, governing: Governing, state: State, store: ContentStore, around: Environment
) -> Gathered:
    """Collect the facts for `call`. Raises StateError, GitError, OSError."""
    session = state.active(call.session)
    call = doubted(call)
    try:
        targets = resolve(call, workspace, around)
    except InvalidPath as error:
        call, targets = replace(call, malformed=str(error)), ()
    targets = tuple(look_at(t, call, workspace, state, store) for t in targets)
    told = written(call, workspace, around)
    call, targets = told.call, (*targets, *told.targets)
    told_of = (*told.targets, *told.perhaps)
    if told_of and (moved := why_unsteady(call, told_of, state)):
        call = replace(call, unproved=call.unproved or moved)
    targets = with_mirrored(targets, call, workspace, governing.intents.get(session.intent_id))
    perhaps = told.perhaps
    if call.command is not None and (targets or perhaps):
        intent = governing.intents.get(session.intent_id)
        targets, perhaps = (with_generated(some, intent, workspace, state) for some in (targets, perhaps))
    now = around.clock()
    pressure = Pressure(state, now)
    denied: tuple[DeniedPath, ...] = ()
    if classify(call) == "destructive":
        targets = with_holders(targets, call, state, now - governing.config.session.lease_s)
        denied = pressure.denied(call.session, str(workspace.root), call.cwd, governing.config.session.detour_minutes)
    document = governing.document
    facts = Facts(
        mode=governing.mode,
        session=SessionFacts(session.intent_id, session.source, *pressure.in_a_row(call.session)),
        intents=governing.intents,
        intents_state=intents_state(governing),
        intents_findings=document.findings if document else (),
        config_error=governing.config_error,
        ignored_intents=governing.ignore.intents,
        targets=with_ignored(targets, workspace, governing),
        perhaps=with_ignored(perhaps, workspace, governing) if perhaps else (),
        denied=denied,
        temporary="" if within(str(workspace.root), around.temporary) else str(around.temporary),
        unjudged=unjudged(call, workspace),
    )
    if facts.active is not None and facts.active.rules:
        from remit.gate.constraining import with_proposed  # the ledger's index is not opened for those who need it not

        facts = with_proposed(facts, call, workspace)
    return Gathered(call, facts)


def unjudged(call: ToolCall, workspace: Workspace) -> tuple[str, ...]:
    """What the command's words have git send or check out, that no branch, tag or remote's branch leads to.

    A name that is not there yet may be a branch that the command makes: what that holds is judged with it.
    """
    names = sent_commits(call.command) if call.command and workspace.common_dir else ()
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
        elif is_hidden(name):
            found.append(name)
    return tuple(found)


def doubted(call: ToolCall) -> ToolCall:
    """The call; a git command that only reads is in doubt where the repository's own settings name programs."""
    if call.command is None or classify(call) != "safe" or "git" not in " ".join(analyse(call.command).reasons):
        return call
    named = programs(Path(call.cwd))
    return replace(call, unproved=f"git here would run what {named[0]} names") if named else call


def intents_state(governing: Governing) -> IntentsState:
    """Whether the intents file can be used."""
    if governing.document is None:
        return "missing"
    return "invalid" if governing.invalid else "ok"


def resolve(call: ToolCall, workspace: Workspace, around: Environment) -> tuple[Target, ...]:
    """The targets that the call's paths may name. Raises InvalidPath."""
    surroundings = Surroundings(around.home, around.temporary, around.settings, around.own_folders)
    folds = bool(call.paths) and folds_case(workspace.root)
    return tuple(
        replace(target(workspace, real, raw, surroundings), folds=folds)
        for raw in call.paths
        for real in real_paths(raw, Path(call.cwd), around.home)
    )


def look_at(found: Target, call: ToolCall, workspace: Workspace, state: State, store: ContentStore) -> Target:
    """The target with what is there now and what this session last saw there."""
    if found.path is None:
        return found
    file = workspace.root / found.path
    now = glance(file)
    seen = state.seen(call.session, found.path)
    changed = seen is not None and (now is None or now.version.sha256 != seen[0])
    diff = difference(store, seen, now.content if now else b"") if changed and not call.checks_itself else ""
    looked = with_content(found, now, seen[0] if seen else None, diff)
    return replace(looked, strange=strangeness(file)) if call.effect == "write" and call.command is None else looked


def with_holders(targets: tuple[Target, ...], call: ToolCall, state: State, since: float) -> tuple[Target, ...]:
    """The targets, with the other session whose running call, begun after `since`, may change them."""
    return tuple(
        t if t.path is None else replace(t, leased_by=state.holder(call.session, str(t.path), since)) for t in targets
    )


def difference(store: ContentStore, seen: tuple[str, str] | None, now: bytes | None) -> str:
    """What changed since the session saw it; empty where the old content is not at hand."""
    old = store.load(seen[1]) if seen else None
    if old is None or now is None:
        return ""
    diff = store.diff(old, now)
    return diff if len(diff) <= DIFF_CHARS else diff[:DIFF_CHARS] + CUT


def with_generated(
    targets: tuple[Target, ...], intent: Intent | None, workspace: Workspace, state: State
) -> tuple[Target, ...]:
    """The targets of a command, those that it may write under any intent marked. Raises StateError."""
    beyond = [str(t.path) for t in targets if t.path is not None and intent is not None and not owns(intent, t)]
    if not beyond:
        return targets
    # For commands that write beyond the scope: it asks git.
    from remit.gate.generated import GeneratedFiles, keeps_anywhere

    folders = [path for path in beyond if (workspace.root / path).is_dir()]
    found = GeneratedFiles.by_head(workspace, state).find([p for p in beyond if p not in folders], folders)
    kept = {path for path, top in found.items() if keeps_anywhere(top)}
    return tuple(replace(t, generated=True) if t.path is not None and str(t.path) in kept else t for t in targets)


def with_ignored(targets: tuple[Target, ...], workspace: Workspace, governing: Governing) -> tuple[Target, ...]:
    """The targets, those that `.intentignore` bars marked. Where git cannot be asked, all count as barred."""
    inside = [t.path for t in targets if t.path is not None]
    try:
        barred = barred_paths(workspace, governing.ignore, inside)
    except (GitError, OSError) as error:
        barred = dict.fromkeys(map(str, inside), f"git could not be asked: {error}"[:200])
    return tuple(replace(t, ignored_by=barred.get(t.path)) if t.path in barred else t for t in targets)
