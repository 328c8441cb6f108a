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

from remit.cli import recall
from remit.cli.blame_arguments import Asked, NotABlame, sorted_words
from remit.cli.blame_output import Style, by_porcelain, made, rendered, start, uncommitted
from remit.cli.blame_state import Settings, depends, is_steady, settings
from remit.cli.colour import has_colour
from remit.cli.failure import Failure
from remit.cli.later import Later
from remit.cli.noted import index_of, store_of
from remit.ledger.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine, believed
from remit.provenance.blame.given import GivenLines, blame_backwards
from remit.provenance.origins.evidence import CLASSES as GRADE_CLASSES
from remit.provenance.origins.evidence import GRADES, named_grades
from remit.provenance.origins.porcelain import GitLine, located, read_blame
from remit.workspace.contents import scratch
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace, git_root

CLASSES = ("AST_REFACTOR", "INTENT_EVOLUTION", "BUG_FIX", "OPTIMIZATION", "DOCUMENTATION", "CONFIGURATION")
GIT_SAYS_NO = (128, 129)
CARRIED = "carried"
LAST_CARRIED = GRADE_CLASSES["carried"][-1]
MIN_GRADES = (*GRADES, CARRIED)
"""The words of `--min-grade`."""


class Only(Struct, frozen=True):
    """Which lines are shown, and what is believed."""

    min_grade: str | None = None
    grade: str | None = None
    mutation_class: str | None = None
    intent_id: str | None = None

    @property
    def fewer(self) -> bool:
        """Whether lines are left out."""
        return self.mutation_class is not None or self.intent_id is not None

    def fits(self, line: BlamedLine) -> bool:
        """Whether a line is shown."""
        classes = (None, line.mutation_class, *declared(line))
        return self.mutation_class in classes and self.intent_id in (None, line.intent_id)

    @property
    def grades(self) -> frozenset[str]:
        """The grades of evidence that are believed. Raises ValueError for a word that is none."""
        weakest = LAST_CARRIED if self.min_grade == CARRIED else self.min_grade
        names: Sequence[str] = GRADES
        strong = frozenset(names[: names.index(weakest) + 1] if weakest else names)
        return strong & named_grades(self.grade) if self.grade else strong


def declared(line: BlamedLine) -> tuple[str, ...]:
    """The class by the agent's word, where what was computed does not speak against it."""
    known = (line.declared, line.mutation_class)
    return (line.declared,) if line.declared and "AST_REFACTOR" not in known else ()


class Question(Struct, frozen=True):
    """What is asked, and where. `path` is the file from the workspace's root, `typed` what standard input held."""

    asked: Asked
    workspace: Workspace
    folder: Path
    path: str
    governed: bool = True
    typed: bytes = b""

    @property
    def top(self) -> Path:
        """The folder that git counts paths from."""
        return git_root(self.workspace.root) or self.workspace.root


class Answer(Struct, frozen=True):
    """The lines, with git's own words for them in the form that is asked for."""

    lines: list[BlamedLine]
    found: Settings
    out: bytes
    fresh: bool = False
    """Whether no commit has the file, so that git has no words for it and these are ours."""


def give(words: Sequence[str], question: Question, only: Only, color: str, *, as_json: bool) -> None:
    """Answer on standard output, and keep the answer where it stays true. Raises Failure, GitError, OSError."""
    began = recall.now_ns()
    terminal = recall.terminal_kind()
    narrow = terminal == "narrow" and by_porcelain(question.asked)
    found = answered(question, fewer=only.fewer, only_lines=as_json, narrow=narrow)
    grades = only.grades
    lines = [believed(line, grades) for line in found.lines] if len(grades) < len(GRADES) else found.lines
    shown = [line for line in lines if only.fits(line)] if only.fewer else lines
    answer = (
        as_document(shown)
        if as_json
        else in_form(question, found, lines, shown, colours(color, bool(terminal), narrow=narrow))
    )
    pager = pager_for(found.found) if terminal and not as_json else ""
    if only.fewer and not shown:
        sys.stderr.write(f"None of the {len(lines)} lines is such a one.\n")
    elif may_be_kept(question, found, as_json):
        kept = depends(question.workspace, question.asked, question.path, found.found)
        place = recall.asked(words, str(Path.cwd()), os.environ, terminal)
        recall.remember(str(question.workspace.state), place, answer, kept, pager, began)
    recall.show(answer, pager)


def pager_for(found: Settings) -> str:
    """The user's pager; empty for none."""
    from remit.cli.pager import pager_of  # only a terminal needs it

    return pager_of(found.own, os.environ)


def questioned(words: Sequence[str], workspace: Workspace, repo: Path, *, governed: bool = True) -> Question:
    """What is asked. Raises Failure."""
    folder = Path.cwd() if repo == Path() else workspace.root
    try:
        asked = sorted_words(words, folder)
    except NotABlame as error:
        raise Failure("USAGE", str(error)) from error
    typed = sys.stdin.buffer.read() if asked.contents == "-" else b""
    return Question(asked, workspace, folder, inside(workspace, repo, asked.file), governed, typed)


def answered(question: Question, *, fewer: bool, only_lines: bool, narrow: bool = False) -> Answer:
    """The lines. git works while the ledger is opened. Raises Failure."""
    asked, workspace = question.asked, question.workspace
    git = Git(question.folder)
    run = start(git, asked, question.typed, fewer=fewer, only_lines=only_lines)
    told = Later(settings, git)
    with ExitStack() as stack:
        index = stack.enter_context(index_of(workspace, governed=question.governed))
        store = store_of(workspace)
        content, options = other_content(question, stack)
        blamer = GivenLines(workspace, index, store, content)
        blamer.prepare(question.path, lambda: run.lines.over, classes=only_lines or fewer)
        try:
            porcelain = read_blame(run.lines.result())
        except GitError as error:
            blamer.lines = fresh_lines(question, blamer, error)
            words = uncommitted(blamer.lines, asked.form, question.path, short="-s" in asked.options)
            lines = blamer.blame(question.path, [*options, *asked.revisions])
            return Answer(known_classes(blamer, lines, only_lines or fewer), told.result(), words, fresh=True)
        blamer.lines = located(porcelain.lines, blamer.attribution.prefix)
        path = str((workspace.root / question.path).relative_to(question.top))
        words = None if only_lines else Later(made, git, asked, run, porcelain, told, path, narrow)
        if asked.reversed:
            lines = backwards(question, index, options, blamer.lines)
        else:
            lines = blamer.blame(question.path, [*options, *asked.revisions])
        try:
            out = words.result() if words else b""
        except GitError as error:
            raise refused(error, asked) from error
        return Answer(known_classes(blamer, lines, only_lines or fewer), told.result(), out)


def backwards(question: Question, index: Index, options: Sequence[str], lines: Sequence[GitLine]) -> list[BlamedLine]:
    """Lines that git traced to the last version that has them. Raises GitError."""
    asked = question.asked
    first = asked.revisions[0].partition("..")[0] if asked.revisions else "HEAD"
    whole = Blamer(question.workspace, index, store_of(question.workspace))
    return blame_backwards(whole, question.path, first, options, lines)


def known_classes(blamer: Blamer, lines: list[BlamedLine], wanted: bool) -> list[BlamedLine]:
    """The lines, with the class of each change where it is asked for: working it out takes a while."""
    return blamer.classed(lines) if wanted else lines


def other_content(question: Question, stack: ExitStack) -> tuple[bytes | None, list[str]]:
    """The content that stands for the work tree's, and git's options as they can be used again. Raises OSError."""
    asked = question.asked
    if asked.contents is None:
        return None, list(asked.tracing)
    rest = [option for option in asked.tracing if not option.startswith("--contents")]
    if asked.contents == "-":
        (path,) = stack.enter_context(scratch(question.workspace.state, question.typed))
        return question.typed, [*rest, f"--contents={path}"]
    path = question.top / asked.contents
    return (path.read_bytes() if path.is_file() else None), [*rest, f"--contents={path}"]


def fresh_lines(question: Question, blamer: Blamer, error: GitError) -> list[GitLine]:
    """The lines of a file that no commit has. Raises Failure, with git's words, where that is not what is wrong."""
    asked = question.asked
    found = None
    if not asked.revisions and asked.contents is None and not asked.reversed:
        ranges = [option for option in asked.tracing if option.startswith("-L")]
        try:
            found = blamer.fresh_lines(question.path, ranges)
        except GitError as no:
            raise refused(no, asked) from no
    if found is None:
        raise refused(error, asked) from error
    return found


def refused(error: GitError, asked: Asked) -> Exception:
    """What git finds wrong with the words, as it says it; the error itself where something else went wrong."""
    if error.code not in GIT_SAYS_NO:
        return error
    return Failure("GIT", error.message.partition("\n\n")[0].strip()[:2000], target=asked.file)


def in_form(
    question: Question, found: Answer, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: Style
) -> bytes:
    """The answer as it was asked for."""
    style = msgspec.structs.replace(style, quoted=found.found.quotes)
    return rendered(question.asked, found.out, lines, shown, style)


def colours(wanted: str, terminal: bool, *, narrow: bool = False) -> Style:
    """How it looks where it is shown. The colours are never all there is to see."""
    letters = "utf" not in (sys.stdout.encoding or "").lower()
    return Style(
        coloured=has_colour(wanted, os.environ, is_terminal=terminal), letters=letters, safe=terminal, narrow=narrow
    )


def may_be_kept(question: Question, found: Answer, as_json: bool) -> bool:
    """Whether the answer stays true as long as the files stay: git dates what no commit has by the clock."""
    steady = question.governed and not found.fresh and is_steady(question.asked, found.found)
    return steady and (as_json or all(commit.strip("0") for commit in {line.commit for line in found.lines}))


def inside(workspace: Workspace, repo: Path, file: str) -> str:
    """The file as a path from the workspace's root; it need not exist any more. Raises Failure."""
    start = Path.cwd() if repo == Path() else workspace.root
    path = Path(os.path.normpath(start.resolve() / file))
    real = path.parent.resolve() / path.name
    if not real.is_relative_to(workspace.root):
        raise Failure("OUTSIDE_WORKSPACE", f"{file!r} is not in {str(workspace.root)!r}", target=file)
    return str(real.relative_to(workspace.root))


def as_document(lines: Sequence[BlamedLine]) -> bytes:
    """The lines as the one JSON document."""
    return msgspec.json.encode({"schema_version": 1, "data": {"lines": lines}}) + b"\n"
