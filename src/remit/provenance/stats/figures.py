"""Figures of `remit stats`: authorship of the lines at HEAD, how long recorded lines live, and counts of the ledger.

Lifetimes come from replaying the differences of the history; git starts a few times, however many commits there are. A
line removed by a commit and inserted elsewhere, or in a new layout, has moved and lives on, if the line is distinctive
or stands beside a distinctive line.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any, TypeAlias

from msgspec import Struct, field

from remit.core.diff.contents import is_distinctive_line
from remit.core.untrusted_input import unquote_path
from remit.ledger.index.index import Filters, Index
from remit.provenance.blame.blame import Blamer, model_of
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.blame.committed_files import CommittedFiles, LineKind, commits_since_recording
from remit.provenance.blame.kept_attributions import KeptAttributions
from remit.provenance.notes.added_lines import FilePatch, parse_patches
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, TreePrefix, relocate_version
from remit.provenance.origins.evidence_grades import Attributions, attribution_at, strip_whitespace
from remit.provenance.origins.file_histories import SLACK_S
from remit.provenance.origins.intent_names import IntentNames
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

LOG_OPTIONS = (
    *("--first-parent", "--reverse", "--diff-merges=first-parent", "-p", "-U0", "-M", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", "--format=commit %H %ct %P"),
)

ReplacingRecord = str  # record that put other lines in a line's place; empty if unrecorded


class LineLife(Struct):
    """Lifetime of one recorded line that reached a commit. Times are in seconds; `died` is None while the line stands.
    `by` is the replacing record, empty for an unknown author, None if not replaced.
    """

    record: str
    path: str
    born: int
    died: int | None = None
    by: ReplacingRecord | None = None


def find_line_lives(git: Git, attributor: LineAttributor, within: Sequence[str] = ()) -> list[LineLife]:
    """Return the recorded lines in HEAD's first-parent history. Raises GitError."""
    head = git.read_head()
    commits = commits_since_recording(git, attributor.recorded_since, head) if head else None
    if commits is None:
        return []
    lives: list[LineLife] = []
    files: OpenFiles = {}
    committed = read_committed_lines(attributor, commits, within)
    for _, group in groupby(committed, key=lambda pair: pair[0].commit):
        removed: list[RemovedLine] = []
        inserted: list[FileLine] = []
        for patch, attributions in group:
            gone, fresh = replay_patch(patch, attributions, files)
            removed += gone
            inserted += fresh
        match_moved_lines(removed, inserted)
        for line in removed:
            if not line.is_moved and line.life is not None:
                line.life.died, line.life.by = line.at, line.by
        lives += [line.life for line in inserted if line.life is not None and line.is_new]
    return lives


def read_committed_lines(
    attributor: LineAttributor, commits: str, within: Sequence[str] = ()
) -> list[tuple[FilePatch, Attributions]]:
    """Return the changes of files by a range of commits, oldest first, each with the attributions of the version's
    lines. Raises GitError.
    """
    patches = list(parse_patches(attributor.git.run("log", *LOG_OPTIONS, commits, "--", *within)))
    versions = [version_of_patch(patch, attributor.prefix) for patch in patches]
    asked = [version for version, patch in zip(versions, patches, strict=True) if patch.path and patch.hunks]
    attributions = attribute_committed_versions(attributor, asked)
    return [(p, attributions.get(version, [])) for p, version in zip(patches, versions, strict=True)]


def attribute_committed_versions(
    attributor: LineAttributor, versions: Sequence[FileVersion]
) -> Mapping[FileVersion, Attributions]:
    if not attributor.has_records:
        return {}
    kept = KeptAttributions(attributor, "patch")
    known = kept.find(versions)
    missing = [version for version in known if version not in kept.known]
    attributed = attributor.attribute_versions(missing, commits={version.commit for version in versions})
    kept.keep_answers({v: dict(enumerate(found, 1)) for v, found in attributed.items() if v in kept.keys})
    listed = {v: [of_line.get(n) for n in range(1, max(of_line, default=0) + 1)] for v, of_line in kept.known.items()}
    return {**listed, **attributed}


def version_of_patch(patch: FilePatch, prefix: TreePrefix) -> FileVersion:
    previous = f"{patch.parent} {patch.source}" if patch.parent and patch.source else None
    return relocate_version(FileVersion(patch.commit, patch.path or "", previous, patch.at), prefix)


class FileLine(Struct):
    """A current line of a file. `text` has no white space; `is_new` marks a life begun in this commit."""

    text: bytes = b""
    life: LineLife | None = None
    is_new: bool = False
    is_taken: bool = False


class RemovedLine(Struct):
    """One line removed by a commit. `by` is as in `LineLife`."""

    text: bytes
    life: LineLife | None
    at: int
    by: ReplacingRecord | None
    is_moved: bool = False


OpenFiles: TypeAlias = dict[str, list[FileLine | None]]


def replay_patch(
    patch: FilePatch, attributions: Attributions, files: OpenFiles
) -> tuple[list[RemovedLine], list[FileLine]]:
    old_texts, new_texts = (list(map(strip_whitespace, texts)) for texts in (patch.old, patch.new))
    if patch.path is None:
        current = zip_longest(old_texts, files.pop(patch.source or "", []), fillvalue=None)
        return [RemovedLine(text or b"", line.life, patch.at, None) for text, line in current if line], []
    if patch.source is not None and patch.source != patch.path:
        files[patch.path] = files.pop(patch.source, [])
    lines = files.setdefault(patch.path, [])
    removed: list[RemovedLine] = []
    inserted: list[FileLine] = []
    for hunk in reversed(patch.hunks):
        new_lines: list[FileLine] = []
        for number, text in zip(hunk.new_range, pop_last(new_texts, hunk.new_lines), strict=True):
            found = attribution_at(attributions, number)
            life = LineLife(found.record, patch.path, patch.at) if found and found.proved else None
            new_lines.append(FileLine(text, life, is_new=True))
        start = hunk.old_range.start - 1
        lines += [None] * (start + hunk.old_lines - len(lines))
        by = next((line.life.record for line in new_lines if line.life), "") if new_lines else None
        old_lines = zip(pop_last(old_texts, hunk.old_lines), lines[start : start + hunk.old_lines], strict=True)
        removed += [RemovedLine(text, line.life if line else None, patch.at, by) for text, line in old_lines]
        lines[start : start + hunk.old_lines] = new_lines
        inserted += new_lines
    return removed, inserted


def pop_last(texts: list[bytes], count: int) -> list[bytes]:
    start = max(0, len(texts) - count)
    popped = texts[start:]
    del texts[start:]
    return [*([b""] * (count - len(popped))), *popped]


def match_moved_lines(removed: list[RemovedLine], inserted: list[FileLine]) -> None:
    positions: dict[bytes, list[int]] = {}
    for number, line in enumerate(inserted):
        positions.setdefault(line.text, []).append(number)
    for number, line in enumerate(removed):
        if line.is_moved or not is_distinctive_line(line.text):
            continue
        if free := [n for n in positions.get(line.text, ()) if not inserted[n].is_taken]:
            follow_run(removed, inserted, number, free[0], 1)
            follow_run(removed, inserted, number - 1, free[0] - 1, -1)


def follow_run(removed: list[RemovedLine], inserted: list[FileLine], old: int, new: int, direction: int) -> None:
    while 0 <= old < len(removed) and 0 <= new < len(inserted):
        line, slot = removed[old], inserted[new]
        if line.is_moved or slot.is_taken or line.text != slot.text:
            return
        line.is_moved = slot.is_taken = True
        if line.life is not None:
            slot.life, slot.is_new = line.life, False
        old, new = old + direction, new + direction


# -- counts of the ledger ----------------------------------------------------------------------------------------


MAX_ALLOWED_SHARE = 0.95
DECIDED_EVENTS = ("tool_use", "denied")  # events that occur once per call; later events repeat the decision
MIN_ANSWERS = 20  # answers below which no habit is inferred


class GroupFigures(Struct):
    """Figures of one agent, model or intent: `generated` lines were written, `accepted` reached a commit,
    `overridden` of those were replaced by lines of no known agent, `at_head` stand now.
    """

    generated: int = 0
    accepted: int = 0
    overridden: int = 0
    at_head: int = 0
    changes: int = 0
    calls: int = 0
    denied: int = 0


class GroupedFigures(Struct):
    """Figures by agent, model and intent, with the key `none` for a missing value."""

    agents: dict[str, GroupFigures]
    models: dict[str, GroupFigures]
    intents: dict[str, GroupFigures]

    def groups_of(
        self, agent: str | None, model: str | None, intent: str | None
    ) -> tuple[GroupFigures, GroupFigures, GroupFigures]:
        return (
            self.agents.setdefault(agent or "none", GroupFigures()),
            self.models.setdefault(model or "none", GroupFigures()),
            self.intents.setdefault(intent or "none", GroupFigures()),
        )


class ToolFigures(Struct):
    """Uses and duration of a tool: `mean_ms` is over the `timed` calls."""

    calls: int = 0
    timed: int = 0
    mean_ms: float = 0.0


class ApprovalFigures(Struct):
    """Questions to people. `rate` is the share of approvals; None without answers."""

    asked: int = 0
    allowed: int = 0
    denied: int = 0
    rate: float | None = None
    too_many: bool = False
    """True if nearly every question was approved: a person who is asked too often stops reading."""


class RecordCounts(Struct):
    """Counts of the ledger. `origin` holds agent, model and intent of each selected change by id; `agents` are the
    ids of every agent's change. `unproved` lines came while an agent's command ran, without proof of the author.
    """

    agents: frozenset[str]
    groups: GroupedFigures = field(default_factory=lambda: GroupedFigures({}, {}, {}))
    events: Counter[str] = field(default_factory=Counter[str])
    verdicts: Counter[str] = field(default_factory=Counter[str])
    violations: Counter[str] = field(default_factory=Counter[str])
    tools: dict[str, ToolFigures] = {}
    answers: ApprovalFigures = field(default_factory=ApprovalFigures)
    origin: dict[str, tuple[str | None, str | None, str | None]] = {}
    records: int = 0
    generated: int = 0
    unproved: int = 0
    mean_ms: float | None = None


def count_records(index: Index, by: Filters, model: str | None = None) -> RecordCounts:
    mutations = index.iterate_records(event="mutation")
    counts = RecordCounts(frozenset(str(document["id"]) for document in mutations))
    models: dict[str, str] = {}
    names = IntentNames(index)
    for document in index.iterate_records(**by):
        body: dict[str, Any] = body_of(document)
        session = str(body.get("session_id"))
        named_model = model_of(document) or body.get("model")
        if isinstance(named_model, str):
            models[session] = named_model
        if model is None or models.get(session, model) == model:
            count_record(counts, document, body, models.get(session), names)
    if timed := [tool for tool in counts.tools.values() if tool.timed]:
        counts.mean_ms = sum(tool.mean_ms * tool.timed for tool in timed) / sum(tool.timed for tool in timed)
    finish_approvals(counts.answers)
    return counts


def finish_approvals(answers: ApprovalFigures) -> None:
    if total := answers.allowed + answers.denied:
        answers.rate = answers.allowed / total
        answers.too_many = total >= MIN_ANSWERS and answers.rate > MAX_ALLOWED_SHARE


def count_record(
    counts: RecordCounts, document: dict[str, Any], body: dict[str, Any], model: str | None, names: IntentNames
) -> None:
    event = str(body.get("event"))
    origin = (document.get("tool", {}).get("name"), model, names.find_name(body))
    groups = counts.groups.groups_of(*origin)
    counts.records += 1
    counts.events[event] += 1
    if event in DECIDED_EVENTS and (verdict := body.get("decision", {}).get("verdict")):
        counts.verdicts[str(verdict)] += 1
    call: dict[str, Any] = body.get("call", {})
    tool = counts.tools.setdefault(str(call.get("name")), ToolFigures()) if call else ToolFigures()
    match event:
        case "tool_use":
            tool.calls += 1
            for group in groups:
                group.calls += 1
        case "tool_result":
            if isinstance(ms := body.get("duration_ms"), int | float):
                tool.timed += 1
                tool.mean_ms += (ms - tool.mean_ms) / tool.timed
        case "denied":
            counts.violations[str(body.get("violation", {}).get("error_type"))] += 1
            for group in groups:
                group.denied += 1
        case "mutation":
            files: list[dict[str, Any]] = body.get("files", [])
            unproved = sum(map(count_unproved_lines, files))
            written = sum(map(count_written_lines, files)) - unproved
            counts.generated += written
            counts.unproved += unproved
            counts.origin[str(document["id"])] = origin
            for group in groups:
                group.generated += written
                group.changes += 1
        case "replay" if isinstance(proved := body.get("proved"), int):
            counts.generated += proved
            counts.unproved -= proved
            for group in groups:
                group.generated += proved
        case "approval_requested":
            counts.answers.asked += 1
        case "approval_answered":
            answer = body.get("approval", {}).get("answer")
            counts.answers.allowed += answer == "allow"
            counts.answers.denied += answer == "deny"
        case _:
            pass


def count_written_lines(file: dict[str, Any]) -> int:
    hunks: list[list[int]] | None = file.get("hunks")
    if hunks is not None:
        return sum(hunk[3] for hunk in hunks)
    return int(file.get("after", {}).get("lines", 0)) if file.get("operation") == "create" else 0


def count_unproved_lines(file: dict[str, Any]) -> int:
    spans: list[list[int]] = file.get("unproved", [])
    return min(count_written_lines(file), sum(last - first + 1 for first, last in spans))


EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""The empty tree, known to every git, by the length of object names: SHA-1 or SHA-256."""

DURABILITY_DAYS = (7, 30, 90)
DAY_S = 86400.0


class FileFigures(Struct, frozen=True):
    """Lines of a file at HEAD by origin, from blame. Of `ai`, `likely` lines came while a single command ran and no
    second writer was seen; `others` are lines of agents not in question. `open` lines of unknown origin came while a
    command ran, possibly written by the command, without proof.
    """

    path: str
    lines: int
    ai: int
    human: int = 0
    mixed: int = 0
    open: int = 0
    likely: int = 0
    others: int = 0
    by_agent: dict[str, int] = {}
    by_model: dict[str, int] = {}
    by_intent: dict[str, int] = {}
    by_session: dict[str, int] = {}


class Durability(Struct, frozen=True):
    """Number of recorded lines with a commit at least `days` old, and of the survivors."""

    days: int
    lines: int
    alive: int


class Figures(Struct, frozen=True):
    """Lines at HEAD by origin, fate of the agents' lines, and counts of the ledger. `files` have lines of agents, most
    first. `likely` lines are among `ai`; `others` are lines of agents not in question. Of the rest, `own` lines stand
    in Remit's own files and `before` are older than the first record; `unknown` lines are left, and `open` came while a
    command ran, without proof. `generated` excludes unproved lines, which `unproved` counts. `accepted` lines reached a
    commit on HEAD's first-parent history; of those `overridden` were replaced by lines of no known agent, `rewritten`
    by an agent, `deleted` removed. `by_agent`, `by_intent` and `by_session` count lines at HEAD.
    """

    lines: int
    ai: int
    human: int
    mixed: int
    unknown: int
    before: int
    own: int
    open: int
    likely: int
    others: int
    files: tuple[FileFigures, ...]
    by_agent: dict[str, int]
    by_model: dict[str, int]
    by_intent: dict[str, int]
    by_session: dict[str, int]
    generated: int
    unproved: int
    accepted: int
    overridden: int
    rewritten: int
    deleted: int
    durability: tuple[Durability, ...]
    groups: GroupedFigures
    tools: dict[str, ToolFigures]
    mean_ms: float | None
    approvals: ApprovalFigures
    records: int
    by_event: dict[str, int]
    by_verdict: dict[str, int]
    by_violation: dict[str, int]


def measure_figures(
    blamer: Blamer, within: Sequence[str], by: Filters, now: float, *, model: str | None = None
) -> Figures:
    """Return all figures; lines only of the files `within` (git pathspecs), by default all files. Raises GitError. `by`
    and `model` select the agents' changes; `now` is the time in seconds.
    """
    sizes = count_lines(blamer.git, within)
    counts = count_records(blamer.index, by, model)
    recorded = find_recorded_files(blamer)
    paths = [*sorted(sizes.keys() & recorded), *find_receiving_files(blamer, sizes, recorded)]
    selective = model is not None or any(by.values())
    counted = CommittedFiles(blamer.workspace, blamer.index, blamer.attributor.store).count_files(paths)
    files = [measure_file(path, kinds, counts, selective=selective) for path, kinds in counted]
    lives = [life for life in find_line_lives(blamer.git, blamer.attributor, within) if life.record in counts.origin]
    add_line_counts(counts, lives, files)
    unexplained = dict(sizes)
    for file in files:
        unexplained[file.path] = sizes.get(file.path, 0) - (file.ai + file.human + file.mixed + file.others)
    own = sum(count for path, count in unexplained.items() if is_own_file(path))
    before = count_older_lines(blamer, within, sizes, unexplained)
    files_by_agents = sorted((file for file in files if file.ai), key=lambda file: (-file.ai, file.path))
    return Figures(
        lines=sum(sizes.values()),
        ai=sum(file.ai for file in files_by_agents),
        human=sum(file.human for file in files),
        mixed=sum(file.mixed for file in files),
        unknown=sum(unexplained.values()) - before - own,
        before=before,
        own=own,
        open=sum(file.open for file in files),
        likely=sum(file.likely for file in files),
        others=sum(file.others for file in files),
        files=tuple(files_by_agents),
        by_agent=sum_counts(file.by_agent for file in files_by_agents),
        by_model=sum_counts(file.by_model for file in files_by_agents),
        by_intent=sum_counts(file.by_intent for file in files_by_agents),
        by_session=sum_counts(file.by_session for file in files_by_agents),
        generated=counts.generated,
        unproved=counts.unproved,
        accepted=len(lives),
        overridden=sum(is_overridden(life, counts) for life in lives),
        rewritten=sum(bool(life.by) and not is_overridden(life, counts) for life in lives),
        deleted=sum(life.died is not None and life.by is None for life in lives),
        durability=tuple(count_durable_lines(lives, days, now) for days in DURABILITY_DAYS),
        groups=counts.groups,
        tools=dict(sorted(counts.tools.items(), key=lambda item: -item[1].calls)),
        mean_ms=counts.mean_ms,
        approvals=counts.answers,
        records=counts.records,
        by_event=dict(counts.events.most_common()),
        by_verdict=dict(counts.verdicts.most_common()),
        by_violation=dict(counts.violations.most_common()),
    )


def is_overridden(life: LineLife, counts: RecordCounts) -> bool:
    return life.by is not None and life.by not in counts.agents


def count_durable_lines(lives: Sequence[LineLife], days: int, now: float) -> Durability:
    seconds = days * DAY_S
    old = [life for life in lives if life.born <= now - seconds]
    return Durability(days, len(old), sum(life.died is None or life.died - life.born >= seconds for life in old))


def add_line_counts(counts: RecordCounts, lives: Sequence[LineLife], files: Sequence[FileFigures]) -> None:
    for life in lives:
        for group in counts.groups.groups_of(*counts.origin[life.record]):
            group.accepted += 1
            group.overridden += is_overridden(life, counts)
    for file in files:
        for names, groups in (
            (file.by_agent, counts.groups.agents),
            (file.by_model, counts.groups.models),
            (file.by_intent, counts.groups.intents),
        ):
            for name, count in names.items():
                groups.setdefault(name, GroupFigures()).at_head += count


def count_older_lines(
    blamer: Blamer, within: Sequence[str], sizes: Mapping[str, int], unexplained: Mapping[str, int]
) -> int:
    """Return how many unexplained lines outside of Remit's own files stood at HEAD before the first record. Raises
    GitError.
    """
    since = blamer.attributor.recorded_since if blamer.attributor.has_records else None
    if not unexplained or since is None:
        return 0
    git = blamer.git
    old = git.text("rev-list", "-1", "--first-parent", f"--before={int(since)}", "HEAD").strip()
    if not old:
        return 0
    output = git.run(
        "diff", "--numstat", "--no-renames", "--no-textconv", "--relative", "-z", old, "HEAD", "--", *within
    )
    rows = (row.split("\t", 2) for row in output.decode("utf-8", "surrogateescape").split("\0") if row)
    added = {path: int(count) if count.isdigit() else 0 for count, _, path in rows}
    return sum(
        max(0, min(count, sizes[path] - added.get(path, 0)))
        for path, count in unexplained.items()
        if not is_own_file(path)
    )


def is_own_file(path: str) -> bool:
    return f"/{ORCHESTRATION_FOLDER}/" in f"/{path}"


def count_lines(git: Git, within: Sequence[str]) -> dict[str, int]:
    """Return the lines of each text file at HEAD; empty before the first commit. Raises GitError."""
    head = git.read_head()
    if head is None:
        return {}
    ends = (EMPTY_TREES[len(head)], head)
    output = git.run("diff", "--numstat", "--no-renames", "--no-textconv", "--relative", "-z", *ends, "--", *within)
    rows = (row.split("\t", 2) for row in output.decode("utf-8", "surrogateescape").split("\0") if row)
    return {path: int(added) for added, _, path in rows if added.isdigit()}


def find_recorded_files(blamer: Blamer) -> set[str]:
    quoted = blamer.index.list_changed_paths(0, -1)
    return {unquote_path(path.encode()) if path.startswith('"') else path for path in quoted}


def find_receiving_files(blamer: Blamer, sizes: Mapping[str, int], recorded: Collection[str]) -> list[str]:
    """Return further files at HEAD with a possible recorded line, among files changed by commits since the first
    record: a person renamed a recorded file, or moved lines.
    """
    attributor = blamer.attributor
    if not attributor.has_records or not sizes:
        return []
    options = ("--format=", "--name-status", "-m", "-M", "--relative", "-z")
    since = f"--since-as-filter={int(attributor.recorded_since - SLACK_S)}"
    out = blamer.git.run("log", *options, since, "HEAD").decode("utf-8", "surrogateescape")
    changed: set[str] = set()
    renames: list[tuple[str, str]] = []
    words = iter(out.split("\0"))
    for status in words:
        path = next(words, "")
        if status.lstrip("\n").startswith("R"):
            renames.append((path, next(words, "")))
            path = renames[-1][1]
        changed.add(path)
    followed = set(recorded)
    for old, new in reversed(renames):  # the newest commit comes first
        followed |= {new} if old in followed else set()
    paths = sorted(sizes.keys() & changed - set(recorded))
    names = {path: f"HEAD:{attributor.prefix}{path}" for path in paths if path not in followed}
    attributor.load_named(names.values())
    marks = attributor.token_index
    matches = {p for p, name in names.items() if any(marks.match_any_record(attributor.lines_of_name(name)).values())}
    return [path for path in paths if path in followed or path in matches]


def measure_file(path: str, kinds: Counter[LineKind], counts: RecordCounts, *, selective: bool) -> FileFigures:
    by_agents = [kind for kind in kinds if kind.origin == "ai"]
    wanted = [kind for kind in by_agents if (kind.record in counts.origin if kind.record else not selective)]
    ai = sum(kinds[kind] for kind in wanted)

    def count_by(name: str) -> dict[str, int]:
        found = Counter[str]()
        for kind in wanted:
            found[getattr(kind, name) or "none"] += kinds[kind]
        return dict(found)

    return FileFigures(
        path,
        kinds.total(),
        ai,
        sum(count for kind, count in kinds.items() if kind.origin == "human"),
        sum(count for kind, count in kinds.items() if kind.origin == "mixed"),
        sum(count for kind, count in kinds.items() if kind.has_candidates),
        sum(kinds[kind] for kind in wanted if kind.is_likely),
        sum(kinds[kind] for kind in by_agents) - ai,
        *map(count_by, ("agent", "model", "intent_id", "session_id")),
    )


def sum_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, parts), Counter[str]()).most_common())
