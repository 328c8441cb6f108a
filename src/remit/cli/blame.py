"""`remit blame`: who wrote each line, under which intent."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from remit.cli import recall
from remit.cli.blame_arguments import Asked, NotABlame, sorted_words
from remit.cli.blame_output import Running, Style, rendered, start, uncommitted
from remit.cli.blame_state import Settings, depends, is_steady, settings
from remit.cli.noted import index_of, reading_gate, store_of
from remit.cli.output import Failure, document, json_option, repo_option, reports_failures
from remit.cli.pager import pager_of
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.provenance.blame import BlamedLine, Blamer
from remit.provenance.given import GivenLines, blame_backwards
from remit.provenance.origins import GRADES
from remit.provenance.porcelain import GitLine, read_porcelain
from remit.workspace.contents import scratch
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace, git_root

CLASSES = ("AST_REFACTOR", "INTENT_EVOLUTION", "BUG_FIX", "OPTIMIZATION", "DOCUMENTATION", "CONFIGURATION")
GIT_SAYS_NO = (128, 129)


class GitLike(click.Command):
    """A command whose words are git's: `--` stays where it is, and what is not ours goes to git as it stands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take our own options out."""
        at = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*args[:at], *(["--"] if at < len(args) else []), *args[at:]])


class Only(Struct, frozen=True):
    """Which lines are shown, and what is believed."""

    min_grade: str | None = None
    mutation_class: str | None = None
    intent_id: str | None = None

    @property
    def fewer(self) -> bool:
        """Whether lines are left out."""
        return self.mutation_class is not None or self.intent_id is not None

    def fits(self, line: BlamedLine) -> bool:
        """Whether a line is shown."""
        return self.mutation_class in (None, line.mutation_class) and self.intent_id in (None, line.intent_id)

    def believed(self, line: BlamedLine) -> BlamedLine:
        """The line, of unknown origin where its evidence is weaker than asked for."""
        grades: Sequence[str] = GRADES
        weak = self.min_grade and line.grade and grades.index(line.grade) > grades.index(self.min_grade)
        return BlamedLine(line.line, line.content, line.commit) if weak else line


class Question(Struct, frozen=True):
    """What is asked, and where. `path` is the file from the workspace's root, `typed` what standard input held."""

    asked: Asked
    gate: Gate
    folder: Path
    path: str
    typed: bytes = b""

    @property
    def workspace(self) -> Workspace:
        """Where it is asked."""
        return self.gate.workspace


class Answer(Struct, frozen=True):
    """The lines, with git's own words for them."""

    run: Running
    lines: list[BlamedLine]
    found: Settings
    fresh: bytes | None = None
    """git's words for a file that no commit has, where it has none itself."""


@click.command(cls=GitLike, context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[OPTION]... [REVISION] [--] FILE")
@click.option("--min-grade", type=click.Choice(GRADES), help="Say unknown where the evidence is weaker than that.")
@click.option("--class", "mutation_class", type=click.Choice(CLASSES), help="Only lines of changes of that class.")
@click.option("--intent", "intent_id", metavar="ID", help="Only lines that were written under this intent.")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour each intent's lines."
)
@repo_option
@json_option
@reports_failures
def blame(words: tuple[str, ...], repo: Path, as_json: bool, color: str, **only: Any) -> None:
    """Show for each line who wrote it, and under which intent.

    All options of git blame are taken: several -L, -w, -M, -C, -s, -e, -f, -n, -l, -t, -b, -c, --root, --abbrev,
    --date, --reverse, --contents, --ignore-rev, --ignore-revs-file, --first-parent, --since, --encoding. The output of
    --porcelain, --line-porcelain and --incremental is git's byte for byte, and header lines between that begin with
    `remit-`. --show-stats counts the lines of each origin.

    Signs: ✦ an agent, ● a person, ◐ both, · nobody saw it written. git tells which version of the file a line came
    with; the ledger tells who wrote what that version added.
    """
    began = recall.now_ns()
    chosen = Only(**only)
    question = questioned(words, repo)
    with ThreadPoolExecutor(4) as pool:
        found = answered(question, pool, fewer=chosen.fewer, only_lines=as_json)
    terminal = sys.stdout.isatty()
    lines = [chosen.believed(line) for line in found.lines]
    shown = [line for line in lines if chosen.fits(line)]
    answer = as_document(shown) if as_json else in_form(question, found, lines, shown, colours(color, terminal))
    pager = pager_of(Git(question.folder), os.environ) if terminal and not as_json else ""
    if may_be_kept(question, found, as_json):
        kept = depends(question.workspace, question.asked, question.path, found.found)
        place = recall.asked(sys.argv[2:], str(Path.cwd()), os.environ, terminal)
        recall.remember(str(question.workspace.state), place, answer, kept, pager, began)
    recall.show(answer, pager)


def questioned(words: Sequence[str], repo: Path) -> Question:
    """What is asked. Raises Failure."""
    gate = reading_gate(repo)
    folder = Path.cwd() if repo == Path() else gate.workspace.root
    try:
        asked = sorted_words(words, folder)
    except NotABlame as error:
        raise Failure("USAGE", str(error)) from error
    typed = sys.stdin.buffer.read() if asked.contents == "-" else b""
    return Question(asked, gate, folder, inside(gate.workspace, repo, asked.file), typed)


def answered(question: Question, pool: ThreadPoolExecutor, *, fewer: bool, only_lines: bool) -> Answer:
    """The lines. git works while the ledger is opened. Raises Failure."""
    asked, workspace, gate = question.asked, question.workspace, question.gate
    git = Git(question.folder)
    run = start(pool, git, asked, question.typed, fewer=fewer, only_lines=only_lines)
    told = pool.submit(settings, git)
    with ExitStack() as stack:
        index, store = stack.enter_context(index_of(gate)), store_of(gate)
        content, options = other_content(question, stack)
        fresh = None
        try:
            given = read_porcelain(run.lines.result())
        except GitError as error:
            given = fresh_lines(question, index, error)
            fresh = uncommitted(given, asked.form, question.path)
        blamer = GivenLines(workspace, index, store, given, content)
        if asked.reversed:
            first = asked.revisions[0].partition("..")[0] if asked.revisions else "HEAD"
            whole = Blamer(workspace, index, store)
            lines = blame_backwards(whole, question.path, first, options, given)
        else:
            lines = blamer.blame(question.path, [*options, *asked.revisions])
        return Answer(run, blamer.classed(lines) if only_lines or fewer else lines, told.result(), fresh)


def other_content(question: Question, stack: ExitStack) -> tuple[bytes | None, list[str]]:
    """The content that stands for the work tree's, and git's options as they can be used again. Raises OSError."""
    asked = question.asked
    if asked.contents is None:
        return None, list(asked.tracing)
    rest = [option for option in asked.tracing if not option.startswith("--contents")]
    if asked.contents == "-":
        (path,) = stack.enter_context(scratch(question.workspace.state, question.typed))
        return question.typed, [*rest, f"--contents={path}"]
    path = (git_root(question.workspace.root) or question.workspace.root) / asked.contents
    return (path.read_bytes() if path.is_file() else None), [*rest, f"--contents={path}"]


def fresh_lines(question: Question, index: Index, error: GitError) -> list[GitLine]:
    """The lines of a file that no commit has. Raises Failure, with git's words, where that is not what is wrong."""
    asked = question.asked
    found = None
    if not asked.revisions and asked.contents is None and not asked.reversed:
        ranges = [option for option in asked.tracing if option.startswith("-L")]
        blamer = Blamer(question.workspace, index, store_of(question.gate))
        found = blamer.fresh_lines(question.path, ranges)
    if found is None:
        if error.code not in GIT_SAYS_NO:
            raise error
        raise Failure("GIT", error.message.partition("\n\n")[0].strip()[:2000], target=asked.file) from error
    return found


def in_form(
    question: Question, found: Answer, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: Style
) -> bytes:
    """The answer as it was asked for."""
    style = msgspec.structs.replace(style, quoted=found.found.quotes)
    return rendered(question.asked, found.fresh or (found.run.shown or found.run.lines).result(), lines, shown, style)


def colours(wanted: str, terminal: bool) -> Style:
    """How it looks where it is shown. The colours are never all there is to see."""
    auto = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM", "dumb") != "dumb"
    letters = "utf" not in (sys.stdout.encoding or "").lower()
    return Style(coloured=wanted == "always" or (wanted == "auto" and auto), letters=letters, safe=terminal)


def may_be_kept(question: Question, found: Answer, as_json: bool) -> bool:
    """Whether the answer stays true as long as the files stay: git dates what no commit has by the clock."""
    dated = not as_json and any(not line.commit.strip("0") for line in found.lines)
    steady = question.gate.governed and is_steady(question.asked, found.found)
    return steady and found.fresh is None and not dated


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
    return document({"schema_version": 1, "data": {"lines": list(map(as_contract, lines))}}).encode() + b"\n"


def as_contract(line: BlamedLine) -> dict[str, object]:
    """A line as other programs read it."""
    found = msgspec.to_builtins(line)
    found["class"] = found.pop("mutation_class")
    return found
