"""Replays: an uncontained filter or formatter runs again, contained, on the former contents of its files.

No observer sees the writer of a file while a command runs. But filters and formatters make files of files: a command
that makes the recorded content again of the former content is the only writer of the file. The replay also tells
a new layout, whose lines keep their writers, from new text.

A call leaves its replay in a folder, with the files needed, and is answered. The daemon or the next question
about lines runs the replay. Proof becomes a further record, naming the record of the call. Different content proves
no author, and the record of a command without a possible replay stays unchanged.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import UNSET, DecodeError, Struct, json
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.diff.contents import ContentVersion, Span, expand_spans, merge_spans, split_lines, subtract_spans
from remit.core.python_runtime import prepare_type
from remit.core.record import Body, MutatedFile
from remit.core.redaction import is_secret_file
from remit.gate.context import Attempts, WorkspaceContext
from remit.gate.machine import Environment
from remit.workspace.observe.observation import Change
from remit.workspace.place.workspace import REPLAYS_FOLDER, Workspace, has_replays

JOB_FILE, FILES_FOLDER, SPARE_FOLDER = "job.json", "files", "spare"
UNFINISHED_PREFIX = ".new-"
MAX_REPLAYS = 50
"""Replays that wait; a call that finds more leaves none."""

MAX_FILES = 50
MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 4 << 20
MAX_WAIT_S = 60.0
"""Time that a question waits for another process to finish the replays."""

SETTINGS_FILES = (
    *("pyproject.toml", "setup.cfg", "tox.ini", "ruff.toml", ".ruff.toml", ".style.yapf", ".isort.cfg", ".flake8"),
    *(".editorconfig", ".clang-format", "_clang-format", ".clang-format-ignore", ".gitignore", ".ignore", "go.mod"),
    *("package.json", ".prettierrc", ".prettierrc.json", ".prettierrc.yaml", ".prettierrc.yml", ".prettierrc.toml"),
    *(".prettierrc.js", ".prettierrc.cjs", ".prettierrc.mjs", "prettier.config.js", "prettier.config.cjs"),
    *("prettier.config.mjs", ".prettierignore", "biome.json", "biome.jsonc", "deno.json", "deno.jsonc", "dprint.json"),
    *("rustfmt.toml", ".rustfmt.toml", "Cargo.toml", "stylua.toml", ".stylua.toml", "taplo.toml", ".taplo.toml"),
    *(".ocamlformat", ".perltidyrc", ".dart_tool"),
)
"""Settings of formatters, in the folder of a file or above."""


class ReplayedFile(Struct, frozen=True):
    """A changed file with the lines left unproved by the record."""

    path: str
    before: ContentVersion | None
    after: ContentVersion
    unproved: tuple[Span, ...]


class Replay(Struct, frozen=True):
    """A command to run again in the folder `cwd` below the workspace `root`.

    `record` is the record of the call; `inputs` are files that the command's text names and did not change.
    """

    record: str
    root: str
    cwd: str
    command: str
    path: str
    agent: str
    session_id: str
    intent_id: str | None
    files: tuple[ReplayedFile, ...]
    inputs: tuple[str, ...] = ()


# -- after the call ------------------------------------------------------------------------------------------


def leave_replay(
    context: WorkspaceContext,
    call: ToolCall,
    record: str,
    intent_id: str | None,
    changes: Sequence[Change],
    unproved: Mapping[str, tuple[Span, ...]],
) -> None:
    """Leave the replay of a call with its changes, if the command is a filter or formatter. Raises OSError."""
    from remit.policy.commands import analyse

    root, command = context.workspace.root, call.command or ""
    analysis, here = analyse(command), Path(call.cwd).resolve()
    folder = context.workspace.state / REPLAYS_FOLDER
    if not analysis.is_repeatable or not all(map(is_replayable_change, changes)):
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    if len(os.listdir(folder)) >= MAX_REPLAYS:  # noqa: PTH208
        return
    files = tuple(
        ReplayedFile(c.path, c.before.version if c.before else None, c.after.version, unproved[c.path])
        for c in changes
        if c.after is not None and unproved.get(c.path)
    )
    before = {c.path: c.before.content for c in changes if c.before is not None and c.before.content is not None}
    folders = (here, *(here / entered for entered in analysis.entered_folders))
    inputs = find_inputs(root, command, folders, {c.path for c in changes})
    if not files or inputs is None or not here.is_relative_to(root):
        return
    contents: dict[str, bytes] = {**find_settings(root, [f.path for f in files]), **inputs, **before}
    if len(contents) > MAX_FILES or sum(map(len, contents.values())) > MAX_TOTAL_BYTES:
        return

    unfinished = folder / f"{UNFINISHED_PREFIX}{record}"
    scratch = unfinished / FILES_FOLDER
    # The folders that the command needs, and `.git`, up to which formatters look for their settings.
    for place in (*folders, *((root / c.path).parent for c in changes), root / ".git"):
        if place.exists() and (real := place.resolve()).is_relative_to(root):
            (scratch / real.relative_to(root)).mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        place = scratch / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    for change in changes:
        if change.before is not None and change.before.version.mode == "100755":
            (scratch / change.path).chmod(0o755)
    variables = context.environment.variables
    replay = Replay(
        record,
        str(root),
        str(here.relative_to(root)),
        command,
        variables.get("PATH", os.defpath),
        call.agent,
        call.session.session_id,
        intent_id,
        files,
        tuple(inputs),
    )
    (unfinished / JOB_FILE).write_bytes(json.encode(replay))
    unfinished.chmod(0o700)
    unfinished.rename(folder / record)


def is_replayable_change(change: Change) -> bool:
    sides = [side for side in (change.before, change.after) if side is not None]
    plain = all(side.content is not None and side.version.mode != "120000" for side in sides)
    return plain and all(side.version.size <= MAX_FILE_BYTES for side in sides) and not is_secret_file(change.path)


def find_inputs(root: Path, command: str, folders: Iterable[Path], changed: set[str]) -> dict[str, bytes] | None:
    """Return the files named and not changed by the command; None if it names a file outside the workspace."""
    # Imported here: only a call that leaves a replay needs the readers of archives in this module.
    from remit.gate.effects.named_files import named_places

    found: dict[str, bytes] = {}
    for place in dict.fromkeys(place for folder in folders for place in named_places(command, folder)):
        with suppress(OSError):
            path = str(place).removeprefix(f"{root}/")
            if place.is_symlink() or not place.is_file() or path in changed:
                continue
            if path == str(place):
                if os.access(place, os.X_OK):
                    continue
                return None
            if is_secret_file(path) or path.startswith(".git/") or place.stat().st_size > MAX_FILE_BYTES:
                return None
            found[path] = place.read_bytes()
    return found


def find_settings(root: Path, paths: Iterable[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for folder in dict.fromkeys(folder for path in paths for folder in Path(path).parents):
        for name in SETTINGS_FILES:
            place = root / folder / name
            with suppress(OSError):
                if place.is_file() and not place.is_symlink() and place.stat().st_size <= MAX_FILE_BYTES:
                    found[str(folder / name)] = place.read_bytes()
    return found


# -- in the daemon, or before a question ---------------------------------------------------------------------


def run_replays(workspace: Workspace, environment: Environment, must_stop: Callable[[], bool] = lambda: False) -> bool:
    """Run the waiting replays until `must_stop`, and record the proof; return True if some are left.

    Raises OSError, of which LockTimeout is a kind, if the replays cannot be read.
    """
    if not has_replays(workspace):
        return False
    from remit.ledger.log_files import hold_lock
    from remit.workspace.sandbox.staging import remove_tree

    folder = workspace.state / REPLAYS_FOLDER
    context = WorkspaceContext(workspace, environment)
    with closing(context), hold_lock(workspace.state / "replays.lock", timeout_s=MAX_WAIT_S):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208
            if must_stop():
                return True
            # A young unfinished folder may still be written; an old one was left by a dead process, and is removed.
            if name.startswith(UNFINISHED_PREFIX) and is_young(folder / name):
                continue
            try:
                # A replay that cannot be run is no proof, and must not block the next replays.
                with Attempts(), suppress(DecodeError):
                    if not name.startswith(UNFINISHED_PREFIX):
                        run_replay(context, folder / name)
            finally:
                remove_tree(folder / name)
    return False


def is_young(place: Path) -> bool:
    import time

    with suppress(OSError):
        return time.time() - place.stat().st_mtime < MAX_WAIT_S
    return False


def run_replay(context: WorkspaceContext, place: Path) -> None:
    # Imported here: a call only leaves a replay.
    from remit.workspace.sandbox.containment import find_containment
    from remit.workspace.sandbox.scratch_run import ScratchRun, run_over_scratch

    replay = json.decode((place / JOB_FILE).read_bytes(), type=prepare_type(Replay))
    environment, scratch, spare = context.environment, place / FILES_FOLDER, place / SPARE_FOLDER
    containment = find_containment(environment.home, environment.temporary)
    if containment.way not in ("overlay", "bind"):
        return
    lines = frozenset(read_input_lines(context, replay, scratch))
    spare.mkdir()
    root = Path(replay.root)
    variables = {**environment.variables, "PATH": replay.path}
    folder, temporary = root / replay.cwd, environment.temporary
    run = ScratchRun(
        *(root, scratch, spare, folder, replay.command, environment.home, temporary, variables),
        settings_variables=environment.settings_variables,
    )
    if run_over_scratch(containment.program, run):
        proved = [file for file in replay.files if is_same_content(scratch, file)]
        record_proof(context, replay, proved, lines)


def is_same_content(scratch: Path, file: ReplayedFile) -> bool:
    from remit.workspace.observe.observation import try_observe_file

    place = scratch / file.path
    if place.resolve() != scratch.resolve() / file.path:
        return False
    found = try_observe_file(place)
    return found is not None and (found.version.sha256, found.version.mode) == (file.after.sha256, file.after.mode)


def read_input_lines(context: WorkspaceContext, replay: Replay, scratch: Path) -> Iterator[bytes]:
    from remit.core.diff.contents import sha256
    from remit.gate.effects.own_lines import is_own_content

    for path in replay.inputs:
        content = (scratch / path).read_bytes()
        if not is_own_content(context.workspace, replay.session_id, sha256(content)):
            yield from (line.strip() for line in split_lines(content))


def record_proof(
    context: WorkspaceContext, replay: Replay, proved: Sequence[ReplayedFile], input_lines: frozenset[bytes]
) -> None:
    """Record the command of a call as the only writer of the files' contents. Raises RECORDING_ERRORS."""
    from remit.gate.effects.existing_lines import ExistingText, find_existing_lines
    from remit.gate.effects.own_lines import find_conflict_lines, find_differences
    from remit.gate.records.call_records import mutated_file
    from remit.policy.commands import analyse

    changes = [Change(f.path, context.load_version(f.before), context.load_version(f.after)) for f in proved]
    differences = find_differences(changes, {}, context.contents)
    only_layout, existing = analyse(replay.command).only_lays_out, ExistingText(lines=input_lines)
    unproved = find_existing_lines(
        changes, differences, existing, context.workspace, replay.session_id, only_layout=only_layout
    )
    for path, spans in find_conflict_lines(changes, differences).items():
        unproved[path] = merge_spans((*unproved.get(path, ()), *spans))
    files: list[MutatedFile] = []
    lines = 0
    for change, file in zip(changes, proved, strict=True):
        if (difference := differences.get(change.path)) is None:
            continue
        left, is_layout = unproved.get(change.path, ()), only_layout and change.before is not None
        if not is_layout:
            left = subtract_spans(left, subtract_spans(left, file.unproved))  # what the text proves stays proved
        lines += len(expand_spans(subtract_spans(file.unproved, left)))
        mutated = mutated_file(change, difference=difference, unproved=left, layout=is_layout)
        files.append(replace(mutated, in_scope=UNSET))
    if files:
        detail: dict[str, object] = {"replays": replay.record, "proved": lines}
        body = Body("replay", UNSET, replay.intent_id, replay.session_id, files=tuple(files), detail=detail)
        context.recorder.append_or_spool([context.recorder.make_record(body, replay.agent, vcs=None)])
