"""Step 4: gather the facts that a decision depends on."""

import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import translate
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import hides_folder
from remit.core.call import OWN_AGENT, ToolCall
from remit.core.decision import Decision, DeniedPath, Facts, Finding, SessionFacts, Target, escape_pattern
from remit.core.intent import Intent
from remit.core.scope.path_patterns import InvalidPath, check_path_bounds
from remit.gate.context import WorkspaceContext
from remit.gate.governing.rules import Rules
from remit.gate.machine import Environment
from remit.gate.state.tickets import has_contained_command, has_uncontained_call
from remit.gate.state.workspace_state import Setbacks, State
from remit.policy.checks.paths import owns_target
from remit.policy.commands import analyse
from remit.policy.commands.background_and_input import BACKGROUND_ARGUMENTS, leaves_process_running
from remit.policy.commands.dangers import find_sent_commits, is_unbranched_name
from remit.policy.commands.programs.row import Write
from remit.policy.decide import classify
from remit.workspace.git.command import Git, GitError, find_git_folder, find_programs
from remit.workspace.intents_file.storage import find_barred_paths
from remit.workspace.observe.observation import try_observe_file
from remit.workspace.place.assignment_file import read_assignment
from remit.workspace.place.resolve_paths import (
    add_content,
    find_open_folders,
    folds_case,
    resolve_real_paths,
    resolve_target,
    special_file_reason,
)
from remit.workspace.place.workspace import Workspace, workspace_at

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

    tool_finding: Finding | None = None
    if call.is_unlisted and call.malformed is None:
        # Imported here: most calls are of a tool that stands in the agent's row.
        from remit.gate.facts.unlisted_tools import settle_unlisted

        call, tool_finding = settle_unlisted(call, workspace.root, environment.home, state, MAX_TARGETS)

    # 4.2 The files that the call names, with links followed, their content now, and what the session last saw there.
    perhaps: tuple[Target, ...] = ()
    try:
        targets = resolve_targets(call, workspace, environment)
        if call.is_unlisted:
            from remit.gate.facts.unlisted_tools import exclude_folders

            targets = exclude_folders(targets)
        targets = tuple(observe_target(context, target, call) for target in targets)
        check_bounds_of_targets(call, targets)
    except InvalidPath as error:
        call, targets = replace(call, malformed=str(error)), ()

    # 4.3 The files that a command's text says it writes, unless another process may move them first.
    if call.command is not None:
        call, sure, perhaps = find_command_targets(mark_unproved_git(call), workspace, environment)
        targets, declared = (*targets, *sure), (*sure, *perhaps)
        try:
            check_bounds_of_targets(call, sure)
        except InvalidPath as error:
            call = replace(call, malformed=str(error))
        if declared and (race := explain_race(call, declared, state)):
            call = replace(call, unproved=call.unproved or race)

    has_floor = call.agent == OWN_AGENT and environment.has_floor
    if has_floor and not workspace.is_assigned and (targets or call.command is not None):
        # Imported here: no hook's call has a floor.
        from remit.gate.facts.secret_targets import mark_secrets

        call, targets = mark_secrets(context, call, targets)

    # 4.4 Marks on the files: the sources that a test mirrors, generated files, ignored paths, leases.
    if intent is not None and intent.companions:
        # Imported here: few intents have companions, and finding them asks git.
        from remit.gate.facts.scope_exempt_files import mark_mirrored_files

        targets = mark_mirrored_files(targets, call, workspace, intent)
    if call.command is not None and (targets or perhaps):
        targets = mark_generated(targets, intent, workspace, state)
        perhaps = mark_generated(perhaps, intent, workspace, state)
        if intent is not None and rules.config.containment.data:
            # Imported here: few repositories name runtime data.
            from remit.gate.facts.runtime_data import mark_data

            targets, perhaps = mark_data(context, targets), mark_data(context, perhaps)
    now = environment.clock.now()
    setbacks = Setbacks(state, now)
    denied: tuple[DeniedPath, ...] = ()
    if classify(call) == "destructive":
        targets = mark_leases(targets, call, state, now - rules.config.session.lease_s)
        denied = setbacks.denied_paths(call.session, str(workspace.root), call.cwd, rules.config.session.detour_minutes)

    # Named in the refusal of a path outside, and found only then: it costs the links of six paths.
    is_outside = any(target.path is None and not target.tolerated for target in (*targets, *perhaps))
    folders = find_open_folders(workspace, environment) if is_outside else ()
    document, fault = rules.document, rules.find_fault(session.intent_id)
    counts = setbacks.count_in_a_row(call.session)
    narrow = state.find_narrowing(call.session) if call.agent == OWN_AGENT else ()
    facts = Facts(
        mode=rules.mode,
        session=SessionFacts(session.intent_id, session.source, *counts, narrow=narrow),
        intents=rules.intents,
        assignment=read_assignment(workspace) if workspace.assignment_path else None,
        intents_state="missing" if document is None else "invalid" if fault else "ok",
        intents_findings=() if fault is None else (fault, *(f for f in rules.errors if f is not fault)),
        config_error=rules.config_error,
        ignored_intents=rules.ignore.intents,
        targets=mark_ignored(targets, workspace, rules),
        perhaps=mark_ignored(perhaps, workspace, rules) if perhaps else (),
        denied=denied,
        tool_finding=tool_finding,
        temporary=next((folder.path for folder in folders), ""),
        unjudged=find_unjudged_commits(call, workspace),
        has_floor=has_floor,
    )

    # 4.5 What the files would hold afterwards, for intents with constraints.
    if facts.active is not None and facts.active.rules:
        # Imported here: only constraints need the ledger's index.
        from remit.gate.facts.constraint_facts import add_constraint_facts

        facts = add_constraint_facts(facts, call, workspace)
    return GatheredCall(call, facts)


def resolve_targets(call: ToolCall, workspace: Workspace, environment: Environment) -> tuple[Target, ...]:
    """Return the targets that the call's own paths may name, links followed. Raises InvalidPath."""
    folds = bool(call.paths) and folds_case(workspace.root)
    return tuple(
        replace(resolve_target(workspace, real, raw, environment), folds=folds)
        for raw in call.paths
        for real in resolve_real_paths(raw, Path(call.cwd), environment.home)
    )


def check_bounds_of_targets(call: ToolCall, targets: Iterable[Target]) -> None:
    """Raise InvalidPath for a file that no tool writes."""
    if call.effect in ("write", "execute"):
        for target in targets:
            check_path_bounds(target.path or target.resolved, is_new=target.sha256 is None)


def observe_target(context: WorkspaceContext, target: Target, call: ToolCall) -> Target:
    is_file_tool = (call.effect == "write" or call.is_unlisted) and call.command is None
    if target.path is None:
        strange = special_file_reason(Path(target.resolved)) if is_file_tool and target.tolerated else None
        return replace(target, strange=strange)
    file = context.workspace.root / target.path
    now = try_observe_file(file)
    seen = context.state.find_seen(call.session, target.path)
    diff = ""
    if seen is not None and (now is None or now.version.sha256 != seen[0]) and not call.checks_itself:
        old, new = context.contents.load(seen[1]), now.content if now else b""
        diff = context.contents.unified_diff(old, new) if old is not None and new is not None else ""
        diff = diff if len(diff) <= MAX_DIFF_CHARS else diff[:MAX_DIFF_CHARS] + CUT_NOTE
    observed = add_content(target, now, seen[0] if seen else None, diff)
    return replace(observed, strange=special_file_reason(file)) if is_file_tool else observed


def mark_unproved_git(call: ToolCall) -> ToolCall:
    if call.command is None:
        return call
    analysis, start = analyse(call.command), Path(call.given_folder or call.cwd)
    for folder in analysis.git_folders if analysis.outcome != "unknown" else ():
        place = Path(os.path.realpath(start / folder))
        if not place.is_dir() or find_git_folder(place) != find_git_folder(Path(os.path.realpath(start))):
            return replace(call, unproved=f"git in {folder!r} may meet settings that run programs")
    if classify(call) != "safe" or "git" not in " ".join(analysis.reasons):
        return call
    named = [*find_programs(Path(call.cwd)), *(find_programs(Path(call.given_folder)) if call.given_folder else ())]
    return replace(call, unproved=f"git here would run what {named[0]} names") if named else call


def explain_race(call: ToolCall, targets: Iterable[Target], state: State) -> str:
    """Return the reason for a possible race on the targets of a command; empty without a race. The paths are resolved
    before the command runs. A later write, or a concurrent command, may meet a link in place of a file, made by a
    command without harm in itself. Raises StateError.
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
    from remit.gate.facts.scope_exempt_files import find_ignored_files, is_exempt_from_scope

    folders = [path for path in outside if (workspace.root / path).is_dir()]
    found = find_ignored_files(workspace, state, [path for path in outside if path not in folders], folders)
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


def find_unjudged_commits(call: ToolCall, workspace: Workspace) -> tuple[str, ...]:
    names = find_sent_commits(call.command) if call.command and workspace.common_dir else ()
    if not names:
        return ()
    git = Git(workspace.root)
    found: list[str] = []
    for name in names:
        commit = git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1, 128))
        if not commit:
            found += [name] if is_unbranched_name(name) else []
        elif git.text(
            "rev-list", "--max-count=1", commit, "--not", "--branches", "--tags", "--remotes", "HEAD", ok=(0, 128)
        ):
            found.append(name)
    return tuple(found)


def scope_at_decision(facts: Facts, decision: Decision) -> tuple[str, ...]:
    companions = [path for finding in decision.findings for path in finding.context.get("companions", ())]
    return (*facts.active.owned_scope, *map(escape_pattern, map(str, companions))) if facts.active else ()


# Files that a command's text says it writes: links are followed, globs and folders are looked into. Where the text does
# not hold in the command's folder, the call is marked `unproved`: its effects count as unknown.

MAX_TARGETS = 200  # files that one command may name; a command that names more is unproved
MAX_VISITS = 4000  # entries of folders that are read for one command


class UnclearWrite(Exception):
    """Unclear writes: the text does not tell what the command writes here. The message says why."""


class NamedFile(Struct, frozen=True):
    """A file named by the command; `follows` if a final link is followed."""

    raw: str
    follows: bool


def find_command_targets(
    call: ToolCall, workspace: Workspace, environment: Environment
) -> tuple[ToolCall, tuple[Target, ...], tuple[Target, ...]]:
    analysis = analyse(call.command) if call.command is not None else None
    if analysis is None or not analysis.writes:
        return call, (), ()
    if call.given_folder:
        return replace(call, unproved="an argument beside it names the folder where it runs"), (), ()
    finder = TargetFinder(call, workspace, environment)
    sure: list[NamedFile] = []
    perhaps: list[NamedFile] = []
    try:
        finder.check_entered_folders(analysis.entered_folders, analysis.writes)
        for write in analysis.writes:
            for file in finder.find_files(write):
                # A file is certain if it is written whenever the command runs.
                is_named = write.is_recursive and not write.glob and file.raw == write.path
                (sure if is_named or not write.is_optional else perhaps).append(file)
        if len(sure) + len(perhaps) > MAX_TARGETS:
            raise UnclearWrite(f"it names more than {MAX_TARGETS} files")
        targets = finder.make_targets(sure), finder.make_targets(perhaps)
    except (UnclearWrite, InvalidPath, OSError) as error:
        return replace(call, unproved=str(error)), (), ()
    if hides_folder(call.agent) and not all(write.path.startswith(("/", "~")) for write in analysis.writes):
        call = replace(call, unproved=f"{call.agent} may run it in a folder that its hook does not tell")
    edits = call.checks_itself or all(write.edits_in_place for write in analysis.writes)
    return replace(call, checks_itself=edits), *targets


class TargetFinder:
    """Finder of a command's targets in the file system; `visits` counts the entries that may still be read. Methods
    raise UnclearWrite, OSError.
    """

    def __init__(self, call: ToolCall, workspace: Workspace, environment: Environment) -> None:
        self.cwd = call.cwd
        self.workspace = workspace
        self.environment = environment
        self.visits = MAX_VISITS

    def absolute_path(self, raw: str) -> str:
        expanded = str(self.environment.home) + raw[1:] if raw == "~" or raw.startswith("~/") else raw
        return os.path.join(self.cwd, expanded)  # noqa: PTH118  Path would tidy `..` away

    def real_paths(self, raw: str) -> tuple[str, ...]:
        return resolve_real_paths(raw, Path(self.cwd), self.environment.home)

    def check_entered_folders(self, folders: Iterable[str], writes: Iterable[Write]) -> None:
        made = {posixpath.normpath(write.path) for write in writes if write.makes_folder or write.adds_names}
        for folder in folders:
            if not Path(self.absolute_path(folder)).is_dir() and posixpath.normpath(folder) not in made:
                raise UnclearWrite(f"it goes into {folder!r}, which is no folder")

    def find_files(self, write: Write) -> Iterator[NamedFile]:
        """Yield the files of one write; for a new folder, a pattern for future files."""
        for raw in self.match_glob(write.path) if write.glob else (write.path,):
            is_folder = Path(self.absolute_path(raw)).is_dir()
            if is_folder and write.names_inside:
                for name in write.names_inside:
                    yield from self.expand_file(write, f"{raw.rstrip('/')}/{name}")
            elif not write.makes_folder:
                yield from self.expand_file(write, raw)
            elif not is_folder:
                yield NamedFile(f"{raw.rstrip('/')}/*", follows=False)

    def expand_file(self, write: Write, raw: str) -> Iterator[NamedFile]:
        full = Path(self.absolute_path(raw))
        is_folder = full.is_dir() and not (full.is_symlink() and not write.follows_links)
        if write.adds_names:
            # New names in a folder must not be able to replace a governing file.
            root = os.path.realpath(self.workspace.root)
            for real in self.real_paths(raw.rstrip("/") or "/"):
                if f"{root}/".startswith(real.rstrip("/") + "/") or real == str(self.workspace.root):
                    raise UnclearWrite(f"new names come into {raw!r}, which holds the whole workspace")
            if not write.is_work_tree:
                raise UnclearWrite(f"what comes into {raw!r} is not in the text")
            yield NamedFile(f"{raw.rstrip('/')}/*", follows=False)
        if write.is_work_tree and write.is_recursive:
            # Imported here: few commands remove a worktree.
            from remit.workspace.worktrees import is_disposable

            tree, words = workspace_at(full, full), Path(posixpath.normpath(raw)).parts
            named = tuple(word for word in words if word not in ("/", ".."))
            # git looks first for a worktree whose path ends so, wherever that lies.
            if tree.assignment_path is None or full.resolve().parts[-len(named) :] != named:
                raise UnclearWrite(f"{raw!r} may name a worktree elsewhere")
            if is_disposable(tree):
                yield NamedFile(f"{raw.rstrip('/')}/*", follows=False)
                return
        stays = write.edits_in_place
        inside = list(self.files_below(raw, stays=stays)) if is_folder and write.is_recursive else []
        yield from inside
        if not inside and not (write.adds_names and is_folder):
            with suppress(OSError):
                found = full.stat()
                if write.follows_links and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                    raise UnclearWrite(f"{write.path!r} has other names (hard links), which may lie anywhere")
            yield NamedFile(raw, write.follows_links)

    def files_below(self, raw: str, *, stays: bool) -> Iterator[NamedFile]:
        """Yield the files below a folder, links not followed. A folder that goes may take whole repositories along."""
        root = self.workspace.root.resolve()
        pending = [raw.rstrip("/") or "/"]
        while pending:
            folder = pending.pop()
            for entry in self.list_entries(folder):
                path = join_path(folder, entry.name)
                if entry.name == ".git" and not stays and root in Path(self.absolute_path(folder)).resolve().parents:
                    # What becomes of a repository is judged as a whole, at the end of the command.
                    raise UnclearWrite(f"{folder!r} is a repository of its own")
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    yield NamedFile(path, follows=False)

    def list_entries(self, folder: str) -> list["os.DirEntry[str]"]:
        """Return the entries of a folder; none if the folder does not exist."""
        try:
            with os.scandir(self.absolute_path(folder)) as found:
                entries = list(islice(found, self.visits + 1))
        except (FileNotFoundError, NotADirectoryError):
            return []
        self.visits -= len(entries) + 1
        if self.visits < 0:
            raise UnclearWrite(f"it may touch more than {MAX_VISITS} files")
        return entries

    def match_glob(self, pattern: str) -> list[str]:
        """Return the paths that a glob matches now; as in the shell, the glob itself if there are none."""
        if "[:" in pattern:
            raise UnclearWrite(f"what {pattern!r} matches cannot be told")
        found = ["/" if pattern.startswith("/") else ""]
        for part in pattern.strip("/").split("/"):
            found = [path for folder in found for path in self.match_step(folder, part, hidden="**" in pattern)]
        for path in found:
            if re.search(r"[\s*?\[]", path) or path.startswith(("-", "@")):
                raise UnclearWrite(f"{path!r} may become other words than one")
        return found if found or "**" in pattern else [pattern]

    def match_step(self, folder: str, part: str, *, hidden: bool) -> Iterator[str]:
        if part == "**":
            pending = [folder]
            while pending:
                at = pending.pop()
                yield at
                entries = self.list_entries(at or ".")
                pending += [join_path(at, entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
        elif not re.search(r"[*?\[]", part):
            if part and (os.path.lexists(self.absolute_path(join_path(folder, part))) or part in (".", "..", "~")):
                yield join_path(folder, part)
        else:
            wanted = re.compile(translate(part.replace("[^", "[!")))
            names = [entry.name for entry in self.list_entries(folder or ".")]
            if not names and hidden and Path(self.absolute_path(folder)).is_file():
                yield folder
            shown = hidden or part.startswith(".")
            yield from (join_path(folder, name) for name in names if wanted.match(name) and (shown or name[0] != "."))

    def make_targets(self, files: Iterable[NamedFile]) -> tuple[Target, ...]:
        """Return the files as the checks know them; where a link itself is meant, only its folder is resolved. Raises
        InvalidPath.
        """
        found: list[Target] = []
        folds = folds_case(self.workspace.root)
        for file in dict.fromkeys(files):
            folder, _, name = file.raw.rstrip("/").rpartition("/")
            if file.follows or name in ("", ".", "..", "~"):
                reals = self.real_paths(file.raw)
            else:
                above = self.real_paths(folder or ("/" if file.raw.startswith("/") else "."))
                reals = tuple(f"{real.rstrip('/')}/{name}" for real in above)
            targets = (resolve_target(self.workspace, real, file.raw, self.environment) for real in reals)
            found += (replace(target, folds=folds) for target in targets)
        return tuple(found)


def join_path(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder not in ("", "/") else f"{folder}{name}"
