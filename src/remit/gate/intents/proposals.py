"""Proposals of intents: what a person is shown of one, and what their yes makes. An agent only proposes; the scope, the
name and the commands are its words, and are shown as such.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.config import make_verify_item
from remit.core.intent import Intent
from remit.core.scope.file_roles import MAX_COMMIT_FILES, find_mirror, select_mirrored_files
from remit.core.scope.path_patterns import Scope
from remit.gate.context import WorkspaceContext
from remit.gate.intents.intents import Intents, SelectedIntent
from remit.gate.intents.owned_files import list_present_files, match_files
from remit.gate.intents.person_edits import MAX_SAMPLE, trust_commands
from remit.gate.intents.refusals import IntentRefused, selectable_intent_ids
from remit.gate.people.questions import Question, ShownProposal
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import list_commit_paths
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

GLOB_CHARS = frozenset("*?[{!\\")
WIDE_SHARE = 0.25
"""Share of a repository's files above which a scope is so wide that one key is too little."""
PROBES = ("a", "a/b/c/d", "z9", "z9/y8/x7/w6")  # paths that only a pattern for nearly everything owns
FEW_FILES = 3  # a scope of so few files is not wide, however small the repository

MIN_TOGETHER, MIN_TOGETHER_SHARE = 3, 0.5
"""How often two files have changed together, and in which share of the changes, before one hints at the other."""
LOOKED_COMMITS = 1_000
SHOWN_HINTS = 5


class AgreedIntent(Struct, frozen=True):
    """An intent that a person agreed to; `why_unselected` says why the session could not select it."""

    intent: Intent
    selected: SelectedIntent | None
    why_unselected: str = ""


# What a person is shown


def show_proposal(
    context: WorkspaceContext, wanted: Intent, expected: Sequence[str] = (), request: str = ""
) -> ShownProposal:
    """Return a proposal as it is shown: measured against the files, the history and the open intents."""
    files: list[str] = []
    commits: list[tuple[str, ...]] = []
    with suppress(GitError, OSError):
        files = [path for path in list_present_files(context.workspace) if not is_own_file(path)]
        commits = list_commit_paths(context.workspace, LOOKED_COMMITS)
    scope = wanted.owned_scope
    owned = match_files(scope, files)
    digests = context.trusted_digests()
    commands = dict.fromkeys(c.verify for c in wanted.acceptance_criteria if c.verify)
    folders = widen_to_folders(scope)
    outside = [path for path in expected if not Scope(scope).matches(path)]
    return ShownProposal(
        name=wanted.name,
        scope=scope,
        new=tuple(pattern for pattern in scope if not pattern.startswith("!") and not match_files((pattern,), files)),
        files=len(owned),
        total=len(files),
        criteria=tuple(c.text for c in wanted.acceptance_criteria if c.text != c.verify),
        commands=tuple(commands),
        untrusted=tuple(c for c in commands if make_verify_item(c, "").digest not in digests),
        constraints=tuple(constraint.text for constraint in wanted.constraints),
        hints=find_hints(scope, owned, files, commits),
        folders=() if folders == scope or is_wide_scope(folders, files) else folders,
        remarks=(
            *describe_overlap(context, wanted, owned),
            *(f"it expects to change {path}, outside" for path in outside[:MAX_SAMPLE]),
        ),
        is_wide=is_wide_scope(scope, files),
        request=request,
    )


def is_own_file(path: str) -> bool:
    return path.startswith(f"{ORCHESTRATION_FOLDER}/")


def is_wide_scope(scope: Sequence[str], files: Sequence[str]) -> bool:
    # An exclusion makes no wide pattern narrow: it may be of the very names that are tried here.
    owned = Scope(tuple(pattern for pattern in scope if not pattern.startswith("!")))
    if any(map(owned.matches, PROBES)):
        return True
    return len(match_files(scope, files)) > max(FEW_FILES, WIDE_SHARE * len(files))


def widen_to_folders(scope: Sequence[str]) -> tuple[str, ...]:
    wider = (
        f"{pattern.rpartition('/')[0]}/**" if "/" in pattern and not GLOB_CHARS & set(pattern) else pattern
        for pattern in scope
    )
    return tuple(dict.fromkeys(wider))


def find_hints(
    scope: Sequence[str], owned: Sequence[str], files: Sequence[str], commits: Iterable[Sequence[str]]
) -> tuple[str, ...]:
    mine = {*owned, *(pattern for pattern in scope if not GLOB_CHARS & set(pattern))}
    others = [path for path in files if path not in mine]
    changed: Counter[str] = Counter()
    together: Counter[str] = Counter()
    for paths in commits:
        if len(paths) <= MAX_COMMIT_FILES:
            near = mine.intersection(paths)
            changed.update(["mine"] * bool(near))
            together.update(paths if near else ())
    often = [
        (count, path)
        for path in others
        if (count := together[path]) >= MIN_TOGETHER and count >= MIN_TOGETHER_SHARE * changed["mine"]
    ]
    mirrors = [
        path for path in others if (m := find_mirror(path)) and mine.intersection(select_mirrored_files(m, mine))
    ]
    ranked = (path for _, path in sorted(often, reverse=True))
    return tuple(dict.fromkeys((*mirrors, *ranked)))[:SHOWN_HINTS]


def describe_overlap(context: WorkspaceContext, wanted: Intent, owned: Sequence[str]) -> list[str]:
    """Return a sentence for each open intent that owns something of the proposed scope."""
    literal = [pattern for pattern in wanted.owned_scope if not GLOB_CHARS & set(pattern)]
    found: list[str] = []
    open_ids = frozenset(selectable_intent_ids(context.rules))
    for other in Intents(context).document.intents:
        if other.id not in open_ids:
            continue
        shared = match_files(other.owned_scope, list(dict.fromkeys((*literal, *owned))))
        if shared:
            more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
            status = "in progress" if other.status == "IN_PROGRESS" else "open"
            found.append(f'{shared[0]}{more} is also {other.id} "{other.title}", {status}')
    return found[:MAX_SAMPLE]


# What a yes makes


def make_agreed_intent(
    context: WorkspaceContext, session: SessionKey, agent: str, wanted: Intent, question: Question, said_by: str
) -> AgreedIntent:
    """Create the intent that a person agreed to, trust the commands that the card showed, and select it for the
    session. Raises as `Intents.create`.
    """
    intents = Intents(context)
    made = intents.create(wanted, by=said_by)
    if question.proposal is not None:
        trust_commands(context, made, question.proposal.untrusted)
    try:
        if intents.state.active_session(session).intent_id is not None:
            intents.clear(session, agent, said_by=said_by)
        selected = intents.select(
            session, agent, made.id, reasoning=question.message, tool="propose_intent", said_by=said_by
        )
    except IntentRefused as refused:
        return AgreedIntent(made, None, refused.violation.message)
    return AgreedIntent(selected.intent, selected)
