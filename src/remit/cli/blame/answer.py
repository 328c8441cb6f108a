"""The answer of `remit blame`: git's lines and the ledger's, put together.

`remit blame FILE` comes straight here: what only the command line needs is not imported.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.cli.blame import answer_cache
from remit.cli.blame.answer_dependencies import BlameGitSettings, dependency_paths, is_answer_stable, read_git_settings
from remit.cli.blame.arguments import BlameArguments, BlameUsageError, parse_arguments
from remit.cli.blame.git_output import (
    BackgroundTask,
    BlameStyle,
    can_use_porcelain,
    make_display,
    render_blame,
    render_uncommitted,
    start_blame,
)
from remit.cli.colour import has_colour
from remit.cli.failure import Failure
from remit.cli.repository import open_content_store, open_repository_index
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine, filter_by_grade
from remit.provenance.blame.supplied_lines import SuppliedLinesBlamer, blame_reversed
from remit.provenance.origins.blame_porcelain import GitLine, parse_porcelain, relocate_lines
from remit.provenance.origins.evidence import GRADES, parse_grades
from remit.provenance.origins.evidence import GRADES_BY_CLASS as GRADE_CLASSES
from remit.workspace.contents.content_store import scratch_files
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace, find_git_root

MUTATION_CLASSES = ("AST_REFACTOR", "INTENT_EVOLUTION", "BUG_FIX", "OPTIMIZATION", "DOCUMENTATION", "CONFIGURATION")
GIT_REFUSAL_CODES = (128, 129)
CARRIED_GRADE = "carried"
WEAKEST_CARRIED_GRADE = GRADE_CLASSES["carried"][-1]
MIN_GRADES = (*GRADES, CARRIED_GRADE)
"""The words of `--min-grade`."""


class LineFilter(Struct, frozen=True):
    """Which lines are shown, and what is believed."""

    min_grade: str | None = None
    grade: str | None = None
    mutation_class: str | None = None
    intent_id: str | None = None

    @property
    def is_selective(self) -> bool:
        """Whether lines are left out."""
        return self.mutation_class is not None or self.intent_id is not None

    def matches(self, line: BlamedLine) -> bool:
        """Whether a line is shown."""
        classes = (None, line.mutation_class, *declared_classes(line))
        return self.mutation_class in classes and self.intent_id in (None, line.intent_id)

    @property
    def accepted_grades(self) -> frozenset[str]:
        """The grades of evidence that are believed. Raises ValueError for a word that is none."""
        weakest = WEAKEST_CARRIED_GRADE if self.min_grade == CARRIED_GRADE else self.min_grade
        names: Sequence[str] = GRADES
        strong = frozenset(names[: names.index(weakest) + 1] if weakest else names)
        return strong & parse_grades(self.grade) if self.grade else strong


def declared_classes(line: BlamedLine) -> tuple[str, ...]:
    """The class by the agent's word, where what was computed does not speak against it."""
    known = (line.declared, line.mutation_class)
    return (line.declared,) if line.declared and "AST_REFACTOR" not in known else ()


class BlameQuestion(Struct, frozen=True):
    """What is asked, and where. `path` is the file from the workspace's root, `typed` what standard input held."""

    arguments: BlameArguments
    workspace: Workspace
    folder: Path
    path: str
    governed: bool = True
    stdin: bytes = b""

    @property
    def git_top(self) -> Path:
        """The folder that git counts paths from."""
        return find_git_root(self.workspace.root) or self.workspace.root


class BlameAnswer(Struct, frozen=True):
    """The lines, with git's own words for them in the form that is asked for."""

    lines: list[BlamedLine]
    settings: BlameGitSettings
    git_output: bytes
    is_uncommitted: bool = False
    """Whether no commit has the file, so that git has no words for it and these are ours."""


def write_answer(words: Sequence[str], question: BlameQuestion, only: LineFilter, color: str, *, as_json: bool) -> None:
    """Answer on standard output, and keep the answer where it stays true. Raises Failure, GitError, OSError."""
    began = answer_cache.now_ns()
    terminal = answer_cache.terminal_kind()
    narrow = terminal == "narrow" and can_use_porcelain(question.arguments)
    found = answer_question(question, fewer=only.is_selective, only_lines=as_json, narrow=narrow)
    grades = only.accepted_grades
    lines = [filter_by_grade(line, grades) for line in found.lines] if len(grades) < len(GRADES) else found.lines
    shown = [line for line in lines if only.matches(line)] if only.is_selective else lines
    answer = (
        encode_lines(shown)
        if as_json
        else render_answer(question, found, lines, shown, choose_style(color, bool(terminal), narrow=narrow))
    )
    pager = user_pager(found.settings) if terminal and not as_json else ""
    if only.is_selective and not shown:
        sys.stderr.write(f"None of the {len(lines)} lines is such a one.\n")
    elif is_cacheable(question, found, as_json):
        kept = dependency_paths(question.workspace, question.arguments, question.path, found.settings)
        place = answer_cache.make_cache_key(words, str(Path.cwd()), os.environ, terminal)
        answer_cache.store_answer(str(question.workspace.state), place, answer, kept, pager, began)
    answer_cache.show_answer(answer, pager)


def user_pager(found: BlameGitSettings) -> str:
    """The user's pager; empty for none."""
    from remit.cli.terminal.pager import choose_pager  # only a terminal needs it

    return choose_pager(found.user_values, os.environ)


def read_question(words: Sequence[str], workspace: Workspace, repo: Path, *, governed: bool = True) -> BlameQuestion:
    """What is asked. Raises Failure."""
    folder = Path.cwd() if repo == Path() else workspace.root
    try:
        asked = parse_arguments(words, folder)
    except BlameUsageError as error:
        raise Failure("USAGE", str(error)) from error
    typed = sys.stdin.buffer.read() if asked.contents == "-" else b""
    return BlameQuestion(asked, workspace, folder, path_in_workspace(workspace, repo, asked.file), governed, typed)


def answer_question(question: BlameQuestion, *, fewer: bool, only_lines: bool, narrow: bool = False) -> BlameAnswer:
    """The lines. git works while the ledger is opened. Raises Failure."""
    asked, workspace = question.arguments, question.workspace
    git = Git(question.folder)
    run = start_blame(git, asked, question.stdin, fewer=fewer, only_lines=only_lines)
    told = BackgroundTask(read_git_settings, git)
    with ExitStack() as stack:
        index = stack.enter_context(open_repository_index(workspace, governed=question.governed))
        store = open_content_store(workspace)
        content, options = substitute_content(question, stack)
        blamer = SuppliedLinesBlamer(workspace, index, store, content)
        blamer.prefetch(question.path, lambda: run.lines.has_result, classes=only_lines or fewer)
        try:
            porcelain = parse_porcelain(run.lines.result())
        except GitError as error:
            blamer.lines = uncommitted_lines(question, blamer, error)
            words = render_uncommitted(blamer.lines, asked.form, question.path, short="-s" in asked.options)
            lines = blamer.blame(question.path, [*options, *asked.revisions])
            return BlameAnswer(
                add_classes(blamer, lines, only_lines or fewer), told.result(), words, is_uncommitted=True
            )
        blamer.lines = relocate_lines(porcelain.lines, blamer.attributor.prefix)
        path = str((workspace.root / question.path).relative_to(question.git_top))
        words = None if only_lines else BackgroundTask(make_display, git, asked, run, porcelain, told, path, narrow)
        if asked.has_reverse_option:
            lines = answer_reversed(question, index, options, blamer.lines)
        else:
            lines = blamer.blame(question.path, [*options, *asked.revisions])
        try:
            out = words.result() if words else b""
        except GitError as error:
            raise git_failure(error, asked) from error
        return BlameAnswer(add_classes(blamer, lines, only_lines or fewer), told.result(), out)


def answer_reversed(
    question: BlameQuestion, index: Index, options: Sequence[str], lines: Sequence[GitLine]
) -> list[BlamedLine]:
    """Lines that git traced to the last version that has them. Raises GitError."""
    asked = question.arguments
    first = asked.revisions[0].partition("..")[0] if asked.revisions else "HEAD"
    whole = Blamer(question.workspace, index, open_content_store(question.workspace))
    return blame_reversed(whole, question.path, first, options, lines)


def add_classes(blamer: Blamer, lines: list[BlamedLine], wanted: bool) -> list[BlamedLine]:
    """The lines, with the class of each change where it is asked for: working it out takes a while."""
    return blamer.add_classes(lines) if wanted else lines


def substitute_content(question: BlameQuestion, stack: ExitStack) -> tuple[bytes | None, list[str]]:
    """The content that stands for the work tree's, and git's options as they can be used again. Raises OSError."""
    asked = question.arguments
    if asked.contents is None:
        return None, list(asked.tracing_options)
    rest = [option for option in asked.tracing_options if not option.startswith("--contents")]
    if asked.contents == "-":
        (path,) = stack.enter_context(scratch_files(question.workspace.state, question.stdin))
        return question.stdin, [*rest, f"--contents={path}"]
    path = question.git_top / asked.contents
    return (path.read_bytes() if path.is_file() else None), [*rest, f"--contents={path}"]


def uncommitted_lines(question: BlameQuestion, blamer: Blamer, error: GitError) -> list[GitLine]:
    """The lines of a file that no commit has. Raises Failure, with git's words, where that is not what is wrong."""
    asked = question.arguments
    found = None
    if not asked.revisions and asked.contents is None and not asked.has_reverse_option:
        ranges = [option for option in asked.tracing_options if option.startswith("-L")]
        try:
            found = blamer.read_uncommitted_file(question.path, ranges)
        except GitError as no:
            raise git_failure(no, asked) from no
    if found is None:
        raise git_failure(error, asked) from error
    return found


def git_failure(error: GitError, asked: BlameArguments) -> Exception:
    """What git finds wrong with the words, as it says it; the error itself where something else went wrong."""
    if error.code not in GIT_REFUSAL_CODES:
        return error
    return Failure("GIT", error.message.partition("\n\n")[0].strip()[:2000], target=asked.file)


def render_answer(
    question: BlameQuestion,
    found: BlameAnswer,
    lines: Sequence[BlamedLine],
    shown: Sequence[BlamedLine],
    style: BlameStyle,
) -> bytes:
    """The answer as it was asked for."""
    style = msgspec.structs.replace(style, quoted=found.settings.quotes_paths)
    return render_blame(question.arguments, found.git_output, lines, shown, style)


def choose_style(wanted: str, terminal: bool, *, narrow: bool = False) -> BlameStyle:
    """How it looks where it is shown. The colours are never all there is to see."""
    letters = "utf" not in (sys.stdout.encoding or "").lower()
    return BlameStyle(
        coloured=has_colour(wanted, os.environ, is_terminal=terminal), letters=letters, safe=terminal, narrow=narrow
    )


def is_cacheable(question: BlameQuestion, found: BlameAnswer, as_json: bool) -> bool:
    """Whether the answer stays true as long as the files stay: git dates what no commit has by the clock."""
    steady = question.governed and not found.is_uncommitted and is_answer_stable(question.arguments, found.settings)
    return steady and (as_json or all(commit.strip("0") for commit in {line.commit for line in found.lines}))


def path_in_workspace(workspace: Workspace, repo: Path, file: str) -> str:
    """The file as a path from the workspace's root; it need not exist any more. Raises Failure."""
    start = Path.cwd() if repo == Path() else workspace.root
    path = Path(os.path.normpath(start.resolve() / file))
    real = path.parent.resolve() / path.name
    if not real.is_relative_to(workspace.root):
        raise Failure("OUTSIDE_WORKSPACE", f"{file!r} is not in {str(workspace.root)!r}", target=file)
    return str(real.relative_to(workspace.root))


def encode_lines(lines: Sequence[BlamedLine]) -> bytes:
    """The lines as the one JSON document."""
    return msgspec.json.encode({"schema_version": 1, "data": {"lines": lines}}) + b"\n"
