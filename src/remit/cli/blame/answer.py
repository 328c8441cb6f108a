"""The answer of `remit blame`: git's lines joined with the ledger's attribution.

`remit blame FILE` runs this module without click, so imports here must stay light.
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
from remit.cli.failure import Failure
from remit.cli.repository import open_content_store, open_index_or_empty, path_in_workspace
from remit.cli.terminal.colour import has_colour
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine, filter_by_grade
from remit.provenance.blame.given_contents import SuppliedLinesBlamer, blame_reversed
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
"""Values of `--min-grade`."""


class LineFilter(Struct, frozen=True):
    """The lines to show, and the evidence to accept."""

    min_grade: str | None = None
    grade: str | None = None
    mutation_class: str | None = None
    intent_id: str | None = None

    @property
    def is_selective(self) -> bool:
        return self.mutation_class is not None or self.intent_id is not None

    def matches(self, line: BlamedLine) -> bool:
        classes = (None, line.mutation_class, *declared_classes(line))
        return self.mutation_class in classes and self.intent_id in (None, line.intent_id)

    @property
    def accepted_grades(self) -> frozenset[str]:
        """Return the accepted grades of evidence. Raises ValueError for an unknown grade."""
        weakest = WEAKEST_CARRIED_GRADE if self.min_grade == CARRIED_GRADE else self.min_grade
        names: Sequence[str] = GRADES
        strong = frozenset(names[: names.index(weakest) + 1] if weakest else names)
        return strong & parse_grades(self.grade) if self.grade else strong


def declared_classes(line: BlamedLine) -> tuple[str, ...]:
    """Return the class declared by the agent, unless the computed class refutes it."""
    known = (line.declared, line.mutation_class)
    return (line.declared,) if line.declared and "AST_REFACTOR" not in known else ()


class BlameQuestion(Struct, frozen=True):
    """A parsed blame command. `path` is relative to the workspace root; `stdin` holds the bytes of standard input."""

    arguments: BlameArguments
    workspace: Workspace
    folder: Path
    path: str
    governed: bool = True
    stdin: bytes = b""

    @property
    def git_top(self) -> Path:
        return find_git_root(self.workspace.root) or self.workspace.root


class BlameAnswer(Struct, frozen=True):
    """The attributed lines, with git's own output in the requested form."""

    lines: list[BlamedLine]
    settings: BlameGitSettings
    git_output: bytes
    is_uncommitted: bool = False
    """True if no commit contains the file: git has no output for it, so the lines are Remit's own."""


def write_answer(words: Sequence[str], question: BlameQuestion, only: LineFilter, color: str, *, as_json: bool) -> None:
    """Write the answer to standard output, and cache a stable one. Raises Failure, GitError, OSError."""
    began_ns = answer_cache.now_ns()
    terminal = answer_cache.terminal_kind()
    narrow = terminal == "narrow" and can_use_porcelain(question.arguments)
    answer = answer_question(question, fewer=only.is_selective, only_lines=as_json, narrow=narrow)
    grades = only.accepted_grades
    lines = [filter_by_grade(line, grades) for line in answer.lines] if len(grades) < len(GRADES) else answer.lines
    shown = [line for line in lines if only.matches(line)] if only.is_selective else lines
    if as_json:
        out = msgspec.json.encode({"schema_version": 1, "data": {"lines": shown}}) + b"\n"
    else:
        style = BlameStyle(
            coloured=has_colour(color, os.environ, is_terminal=bool(terminal)),
            letters="utf" not in (sys.stdout.encoding or "").lower(),
            quoted=answer.settings.quotes_paths,
            safe=bool(terminal),
            narrow=narrow,
        )
        out = render_blame(question.arguments, answer.git_output, lines, shown, style)
    pager = ""
    if terminal and not as_json:
        from remit.cli.terminal.pager import choose_pager  # only a terminal needs a pager

        pager = choose_pager(answer.settings.user_values, os.environ)
    if only.is_selective and not shown:
        sys.stderr.write(f"None of the {len(lines)} lines matches.\n")
    elif is_cacheable(question, answer, as_json):
        dependencies = dependency_paths(question.workspace, question.arguments, question.path, answer.settings)
        key = answer_cache.make_cache_key(words, str(Path.cwd()), os.environ, terminal)
        answer_cache.store_answer(str(question.workspace.state), key, out, dependencies, pager, began_ns)
    answer_cache.show_answer(out, pager)


def read_question(words: Sequence[str], workspace: Workspace, repo: Path, *, governed: bool = True) -> BlameQuestion:
    """Parse the arguments into a question. Raises Failure."""
    folder = Path.cwd() if repo == Path() else workspace.root
    try:
        arguments = parse_arguments(words, folder)
    except BlameUsageError as error:
        raise Failure("USAGE", str(error)) from error
    stdin = sys.stdin.buffer.read() if arguments.contents == "-" else b""
    path = path_in_workspace(workspace, repo, arguments.file)
    return BlameQuestion(arguments, workspace, folder, path, governed, stdin)


def answer_question(question: BlameQuestion, *, fewer: bool, only_lines: bool, narrow: bool = False) -> BlameAnswer:
    """Return the attributed lines; git runs while the ledger's index is opened. Raises Failure."""
    arguments, workspace = question.arguments, question.workspace
    needs_classes = only_lines or fewer  # computing the class of each change takes a while
    git = Git(question.folder)
    running = start_blame(git, arguments, question.stdin, fewer=fewer, only_lines=only_lines)
    settings = BackgroundTask(read_git_settings, git)
    with ExitStack() as stack:
        index = stack.enter_context(open_index_or_empty(workspace, governed=question.governed))
        store = open_content_store(workspace)
        content, options = substitute_content(question, stack)
        blamer = SuppliedLinesBlamer(workspace, index, store, content)
        blamer.prefetch(question.path, lambda: running.lines.has_result, classes=needs_classes)
        try:
            porcelain = parse_porcelain(running.lines.result())
        except GitError as error:
            # No commit has the file: git blames nothing, so the whole file is attributed as uncommitted.
            blamer.lines = uncommitted_lines(question, blamer, error)
            out = render_uncommitted(blamer.lines, arguments.form, question.path, short="-s" in arguments.options)
            lines = blamer.blame(question.path, [*options, *arguments.revisions])
            lines = blamer.add_classes(lines) if needs_classes else lines
            return BlameAnswer(lines, settings.result(), out, is_uncommitted=True)
        blamer.lines = relocate_lines(porcelain.lines, blamer.attributor.prefix)
        path = str((workspace.root / question.path).relative_to(question.git_top))
        display = None
        if not only_lines:
            display = BackgroundTask(make_display, git, arguments, running, porcelain, settings, path, narrow)
        if arguments.has_reverse_option:
            first = arguments.revisions[0].partition("..")[0] if arguments.revisions else "HEAD"
            lines = blame_reversed(Blamer(workspace, index, store), question.path, first, options, blamer.lines)
        else:
            lines = blamer.blame(question.path, [*options, *arguments.revisions])
        try:
            out = display.result() if display else b""
        except GitError as error:
            raise git_failure(error, arguments) from error
        lines = blamer.add_classes(lines) if needs_classes else lines
        return BlameAnswer(lines, settings.result(), out)


def substitute_content(question: BlameQuestion, stack: ExitStack) -> tuple[bytes | None, list[str]]:
    """Return the content to blame instead of the work tree's, and git's options for a second run. Raises OSError."""
    arguments = question.arguments
    if arguments.contents is None:
        return None, list(arguments.tracing_options)
    options = [option for option in arguments.tracing_options if not option.startswith("--contents")]
    if arguments.contents == "-":
        (path,) = stack.enter_context(scratch_files(question.workspace.state, question.stdin))
        return question.stdin, [*options, f"--contents={path}"]
    path = question.git_top / arguments.contents
    return (path.read_bytes() if path.is_file() else None), [*options, f"--contents={path}"]


def uncommitted_lines(question: BlameQuestion, blamer: Blamer, error: GitError) -> list[GitLine]:
    """Return the lines of a file that no commit contains. Raises Failure with git's message for any other error."""
    arguments = question.arguments
    lines = None
    if not arguments.revisions and arguments.contents is None and not arguments.has_reverse_option:
        ranges = [option for option in arguments.tracing_options if option.startswith("-L")]
        try:
            lines = blamer.read_uncommitted_file(question.path, ranges)
        except GitError as range_error:
            raise git_failure(range_error, arguments) from range_error
    if lines is None:
        raise git_failure(error, arguments) from error
    return lines


def git_failure(error: GitError, arguments: BlameArguments) -> Exception:
    """Return git's complaint about the arguments as a Failure; return any other error unchanged."""
    if error.code not in GIT_REFUSAL_CODES:
        return error
    return Failure("GIT", error.message.partition("\n\n")[0].strip()[:2000], target=arguments.file)


def is_cacheable(question: BlameQuestion, answer: BlameAnswer, as_json: bool) -> bool:
    if not question.governed or answer.is_uncommitted or not is_answer_stable(question.arguments, answer.settings):
        return False
    # git dates uncommitted lines by the clock, so an answer for people with such a line changes every second
    return as_json or all(commit.strip("0") for commit in {line.commit for line in answer.lines})
