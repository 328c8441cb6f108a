"""`remit blame`: who wrote each line, under which intent. git's lines joined with the ledger's attribution."""

import os
import re
import sys
import threading
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from remit.cli import output
from remit.cli.ask_daemon import UNKNOWN_COLUMNS
from remit.cli.blame.arguments import BlameArguments, BlameUsageError, option_name, parse_arguments
from remit.cli.completion import INTENT, complete_files
from remit.cli.screen import choose_pager, has_colour, show_in_pager
from remit.core.call import MUTATION_CLASSES
from remit.provenance.blame import annotated_output
from remit.provenance.blame.blame import Blamer, blame_reversed
from remit.provenance.blame.blamed_line import BlamedLine, filter_by_grade
from remit.provenance.origins.blame_porcelain import BlamePorcelain, GitLine, parse_porcelain, relocate_lines
from remit.provenance.origins.evidence_grades import GRADES, GRADES_BY_CLASS, parse_grades
from remit.workspace.contents.content_store import scratch_files
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace, find_git_root, find_nested_repository

GIT_REFUSAL_CODES = (128, 129)
CARRIED_GRADE = "carried"
WEAKEST_CARRIED_GRADE = GRADES_BY_CLASS["carried"][-1]
MIN_GRADES = (*GRADES, CARRIED_GRADE)  # values of `--min-grade`
PROGRESS_OPTIONS = ("--progress", "--no-progress")
NARROW_COLUMNS = 120  # terminals with fewer columns get the narrow form: git's own is too wide beside Remit's columns

NARROW_OPTIONS = {"-L", "-w", "-M", "-C", "--minimal", "--first-parent", "--ignore-rev", "--ignore-revs-file"}
"""Options that ask for no form of their own: with others the form stays as asked."""

NARROW_NAME_CHARS = 12
USER_SCOPES = ("system", "global")  # scopes of git's settings outside the control of a repository
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


# -- the command -------------------------------------------------------------------------------------------------


def validate_grades(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the option's value. Raises BadParameter for an unknown grade."""
    if value is not None:
        try:
            parse_grades(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from error
    return value


def grade_option(command: F) -> F:
    """Add `--grade`, which treats lines with weaker evidence as unknown."""
    return click.option(
        "--grade",
        metavar="GRADES",
        callback=validate_grades,
        help="Believe only this evidence: exact, carried, note, likely, with commas between, or "
        f"{', '.join(GRADES[1:-2])}. Lines with other evidence are unknown.",
    )(command)


class GitStyleCommand(click.Command):
    """A command with git's argument rules: `--` is kept, and unknown options are passed on unchanged."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*args[:at], *(["--"] if at < len(args) else []), *args[at:]])


@click.command(cls=GitStyleCommand, context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[OPTION]... [REVISION] [--] FILE",
    shell_complete=complete_files,
)
@click.option("--min-grade", type=click.Choice(MIN_GRADES), help="Say unknown where the evidence is weaker than that.")
@grade_option
@click.option(
    "--class",
    "mutation_class",
    type=click.Choice(MUTATION_CLASSES),
    help="Only lines of changes of that class, computed, or declared and not refuted.",
)
@click.option(
    "--intent",
    "intent_id",
    metavar="ID",
    help="Only lines that were written under this intent.",
    type=INTENT,
)
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour each intent's lines."
)
@output.command_options
def blame(words: tuple[str, ...], repo: Path, as_json: bool, color: str, **only: Any) -> None:
    """Show for each line who wrote it, and under which intent.

    All options of git blame are taken: several -L, -w, -M, -C, -s, -e, -f, -n, -l, -t, -b, -c, --root, --abbrev,
    --date, --reverse, --contents, --ignore-rev, --ignore-revs-file, --first-parent, --since, --encoding. The output of
    --porcelain, --line-porcelain and --incremental is git's byte for byte, and header lines between that begin with
    `remit-`. --show-stats counts the lines of each origin.

    Signs: ✦ an agent, ● a person, ◐ both, · nobody saw it written. git tells which version of the file a line came
    with; the ledger tells who wrote what that version added.
    """
    workspace, governed = output.find_readable_workspace(repo)
    caller = AskingProcess.of_this_process()
    question = read_question(words, workspace, repo, caller.folder, governed=governed)
    if question.arguments.contents == "-":
        question = replace(question, stdin=sys.stdin.buffer.read())
    write_reply(compose_reply(question, LineFilter(**only), color, caller, as_json=as_json))


class AskingProcess(Struct, frozen=True):
    """What an answer needs to know about the asking process. `columns` is 0 unless it writes to a terminal."""

    folder: Path
    columns: int = 0
    encoding: str = ""
    variables: Mapping[str, str] = {}

    @classmethod
    def of_this_process(cls) -> "AskingProcess":
        try:
            columns = os.get_terminal_size(1).columns or UNKNOWN_COLUMNS
        except OSError:
            columns = 0  # a file or a pipe
        return cls(Path.cwd(), columns, sys.stdout.encoding or "", os.environ)


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
        # The class declared by the agent counts, unless the computed class refutes it.
        classes = {None, line.mutation_class}
        classes |= set() if "AST_REFACTOR" in (line.declared, line.mutation_class) else {line.declared}
        return self.mutation_class in classes and self.intent_id in (None, line.intent_id)

    @property
    def accepted_grades(self) -> frozenset[str]:
        """Return the accepted grades of evidence. Raises ValueError for an unknown grade."""
        weakest = WEAKEST_CARRIED_GRADE if self.min_grade == CARRIED_GRADE else self.min_grade
        names: Sequence[str] = GRADES
        strong = frozenset(names[: names.index(weakest) + 1] if weakest else names)
        return strong & parse_grades(self.grade) if self.grade else strong


class BlameQuestion(Struct, frozen=True):
    """A parsed blame command. `path` is relative to the workspace root; `stdin` holds the bytes of standard input."""

    arguments: BlameArguments
    workspace: Workspace
    folder: Path
    path: str
    governed: bool = True
    stdin: bytes = b""


def read_question(
    words: Sequence[str], workspace: Workspace, repo: Path, caller_folder: Path | None = None, *, governed: bool = True
) -> BlameQuestion:
    """Parse the arguments into a question, without standard input. Raises Failure."""
    folder = output.folder_of_paths(workspace, repo, caller_folder)
    try:
        arguments = parse_arguments(words, folder)
    except BlameUsageError as error:
        raise output.Failure("USAGE", str(error)) from error
    path = output.path_in_workspace(workspace, repo, arguments.file, caller_folder)
    nested = find_nested_repository(workspace, path)
    if nested and not folder.resolve().is_relative_to(workspace.root / nested):
        folder, arguments = workspace.root / nested, replace(arguments, file=path.removeprefix(nested))
    return BlameQuestion(arguments, workspace, folder, path, governed)


class BlameStyle(Struct, frozen=True):
    """The look of the answer. `quoted`: git quotes file names. `safe`: escape text for a terminal. `narrow`: leave out
    model and grade.
    """

    coloured: bool = False
    letters: bool = False
    quoted: bool = True
    safe: bool = False
    narrow: bool = False


class BlameReply(Struct, frozen=True):
    """The answer's bytes, the notice for standard error, and the pager to show the answer in, if any."""

    out: bytes
    notice: str = ""
    pager: str = ""


def compose_reply(
    question: BlameQuestion, only: LineFilter, color: str, caller: AskingProcess, *, as_json: bool
) -> BlameReply:
    """Return the reply to a question. Raises Failure, GitError, OSError."""
    arguments, columns = question.arguments, caller.columns
    names = {option_name(option) for option in arguments.options}
    narrow = 0 < columns < NARROW_COLUMNS and arguments.form == "text" and names <= NARROW_OPTIONS
    answer = answer_question(question, fewer=only.is_selective, only_lines=as_json, narrow=narrow)
    grades = only.accepted_grades
    lines = [filter_by_grade(line, grades) for line in answer.lines] if len(grades) < len(GRADES) else answer.lines
    shown = [line for line in lines if only.matches(line)] if only.is_selective else lines
    notice = f"None of the {len(lines)} lines matches.\n" if only.is_selective and not shown else ""
    if as_json:
        out = output.encode_json({"schema_version": 1, "data": {"lines": shown}}).encode() + b"\n"
        return BlameReply(out, notice)
    style = BlameStyle(
        coloured=has_colour(color, caller.variables, is_terminal=columns > 0),
        letters="utf" not in caller.encoding.lower(),
        quoted=answer.settings.quotes_paths,
        safe=columns > 0,
        narrow=narrow,
    )
    out = render_blame(arguments, answer.git_output, lines, shown, style)
    pager = choose_pager(answer.settings.user_values, caller.variables) if columns else ""
    return BlameReply(out, notice, pager)


def write_reply(reply: BlameReply) -> None:
    """Write a reply to this process's streams."""
    sys.stderr.write(reply.notice)
    if reply.pager:
        show_in_pager(reply.out, reply.pager)
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(reply.out)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # a reader that closes early is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# -- the answer --------------------------------------------------------------------------------------------------


class BlameGitSettings(Struct, frozen=True):
    """Git's settings: the last value of each name. `user_values` excludes values set by a repository."""

    values: dict[str, str] = {}
    user_values: dict[str, str] = {}

    @property
    def quotes_paths(self) -> bool:
        return self.values.get("core.quotepath", "true").lower() not in ("false", "no", "off", "0")


def read_git_settings(git: Git) -> BlameGitSettings:
    """Return the settings in force, without those of Remit's own git calls. Source: git-config(1), read 2026-11."""
    settings = BlameGitSettings({}, {})
    try:
        out = git.run("config", "--list", "--show-scope", "--show-origin", "-z")
    except GitError:
        return settings
    parts = out.decode("utf-8", "surrogateescape").split("\0")
    for scope, origin, entry in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        name, _, value = entry.partition("\n")
        if origin.startswith("file:"):
            settings.values[name] = value
            settings.user_values.update({name: value} if scope in USER_SCOPES else {})
    return settings


class ThreadedCall(Generic[R]):
    """A call in a thread of its own, begun at once. `concurrent.futures` takes as long to import as a small blame."""

    def __init__(self, call: Callable[[], R]) -> None:
        self.call = call
        self.results: list[R] = []
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            self.results.append(self.call())
        except Exception as error:  # noqa: BLE001  raised again where the result is asked for
            self.error = error

    def result(self) -> R:
        """Wait for the call and return its result. Raises what the call raised."""
        self.thread.join()
        if self.error is not None:
            raise self.error
        return self.results[0]


class BlameAnswer(Struct, frozen=True):
    """The attributed lines, with git's own output in the requested form."""

    lines: list[BlamedLine]
    settings: BlameGitSettings
    git_output: bytes


def answer_question(question: BlameQuestion, *, fewer: bool, only_lines: bool, narrow: bool = False) -> BlameAnswer:
    """Return the attributed lines; git runs while the ledger's index is opened. Raises Failure. `fewer`: only some
    lines will be shown. `only_lines`: git's own output is not needed.
    """
    arguments, workspace, git = question.arguments, question.workspace, Git(question.folder)
    is_text = arguments.form == "text"
    with ExitStack() as stack:
        # 1. git runs once, or twice if the requested form lacks the porcelain's information. Display options go to git
        # as well, so that git validates their values.
        form = "porcelain" if is_text or arguments.form == "incremental" or only_lines else arguments.form
        if fewer and not only_lines and arguments.form == "porcelain":
            form = "line-porcelain"
        target = (*arguments.revisions, "--", arguments.file)
        options = arguments.tracing_options if is_text else arguments.options
        tracing = ThreadedCall(partial(git.run, "blame", f"--{form}", *options, *target, stdin=question.stdin))
        display = tracing
        if (is_text or arguments.form == "incremental") and not only_lines:
            own = [option for option in arguments.options if option not in PROGRESS_OPTIONS]
            own += ["--date=short"] if narrow else [] if is_text else ["--incremental"]
            display = ThreadedCall(partial(git.run, "blame", *own, *target, stdin=question.stdin))
        settings = ThreadedCall(partial(read_git_settings, git))

        # 2. The lines, of the content to blame instead of the work tree's, if one is given.
        index = stack.enter_context(output.open_index_or_empty(workspace, governed=question.governed))
        blamer = Blamer(workspace, index, output.open_content_store(workspace), question.path)
        options = arguments.tracing_options
        if arguments.contents is not None:
            options = tuple(option for option in options if not option.startswith("--contents"))
            file = (find_git_root(workspace.root) or workspace.root) / arguments.contents
            content = question.stdin if arguments.contents == "-" else file.read_bytes() if file.is_file() else None
            if arguments.contents == "-":
                file = Path(stack.enter_context(scratch_files(workspace.state, question.stdin))[0])
            blamer.attributor.working_content = content
            options = (*options, f"--contents={file}")
        porcelain = None
        try:
            porcelain = parse_porcelain(tracing.result())
            given = relocate_lines(porcelain.lines, blamer.attributor.prefix)
        except GitError as error:
            # No commit has the file: git blames nothing, so the whole file is attributed as uncommitted.
            given = uncommitted_lines(question, blamer, error)

        # 3. The authors, and git's own output.
        if porcelain and arguments.has_reverse_option:
            first = arguments.revisions[0].partition("..")[0] if arguments.revisions else "HEAD"
            lines = blame_reversed(
                Blamer(workspace, index, blamer.attributor.store, question.path), question.path, first, options, given
            )
        else:
            lines = blamer.blame(question.path, [*options, *arguments.revisions], given)
        if only_lines or fewer:
            lines = blamer.add_classes(lines)
        if porcelain is None:
            out = render_uncommitted(given, arguments, question.path)
        elif only_lines:
            out = b""
        else:
            try:
                out = display.result()
            except GitError as error:
                raise git_failure(error, arguments) from error
            if is_text:
                out = escape_newlines_in_paths(out, porcelain)
            if narrow:
                out = shorten_authors(out, porcelain)
        return BlameAnswer(lines, settings.result(), out)


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
    message = error.message.partition("\n\n")[0].strip()[:2000]
    return output.Failure("GIT", message, target=arguments.file) if error.code in GIT_REFUSAL_CODES else error


# -- its form ----------------------------------------------------------------------------------------------------


def escape_newlines_in_paths(out: bytes, porcelain: BlamePorcelain) -> bytes:
    for path in {commit.version.path for commit in porcelain.commits.values() if commit.version}:
        if "\n" in path:
            raw = path.encode("utf-8", "surrogateescape")
            out = out.replace(raw, raw.replace(b"\n", b"?"))
    return out


def shorten_authors(out: bytes, porcelain: BlamePorcelain) -> bytes:
    """Cut the authors in git's default format to 12 characters, padded to one width."""
    authors = {name: commit.fields.get(b"author", b"") for name, commit in porcelain.commits.items()}
    short = {author: shorten_author(author.decode("utf-8", "replace")) for author in authors.values()}
    widest = max((columns for _, columns in short.values()), default=0)
    rows: list[bytes] = []
    for row, line in zip(out.split(b"\n"), porcelain.lines, strict=False):
        author = authors[line.version.commit]
        head, found, rest = row.partition(b"(" + author)
        date = re.match(rb" *(?=\d{4}-\d\d-\d\d )", rest)
        if found and date:
            text, columns = short[author]
            row = head + f"({text}{' ' * (widest - columns)} ".encode() + rest[date.end() :]
        rows.append(row)
    return b"\n".join([*rows, b""])


def shorten_author(author: str) -> tuple[str, int]:
    text = author[: NARROW_NAME_CHARS - 1] + "…" if len(author) > NARROW_NAME_CHARS else author
    return text, sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def render_blame(
    arguments: BlameArguments, out: bytes, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: BlameStyle
) -> bytes:
    wanted = {line.line for line in shown}
    if arguments.form == "text":
        raws = [raw for raw, line in zip(out.split(b"\n")[:-1], lines, strict=False) if line.line in wanted]
        annotated = annotated_output.annotate_text(
            [annotated_output.escape_for_terminal(raw) for raw in raws] if style.safe else raws,
            shown,
            letters=style.letters,
            coloured=style.coloured,
            compact="-s" in arguments.options or style.narrow,
        )
        counts = [annotated_output.count_origins(shown).encode()] if arguments.stats else []
        return b"\n".join([*annotated, *counts, b""])
    if arguments.form == "incremental":
        annotated = annotated_output.annotate_incremental(out, shown, quoted=style.quoted)
    else:
        if len(shown) < len(lines):
            out = b"".join(line + b"\n" for line in annotated_output.select_lines(out, wanted))
        annotated = annotated_output.annotate_porcelain(out, shown, quoted=style.quoted)
    # Programs read git's bytes through a pipe; on a terminal a person reads them.
    escaped = map(annotated_output.escape_unprintable, annotated) if style.safe else annotated
    return b"".join(line + b"\n" for line in escaped)


def render_uncommitted(lines: Sequence[GitLine], arguments: BlameArguments, path: str) -> bytes:
    """Return the lines of an uncommitted file in git's format. Source: git-blame(1), read 2026-11."""
    if arguments.form == "text":
        width = len(str(lines[-1].line)) if lines else 1
        head = b"00000000 %*d) %s\n" if "-s" in arguments.options else b"00000000 (Not Committed Yet %*d) %s\n"
        return b"".join(head % (width, line.line, line.content) for line in lines)
    template = (
        b"author Not Committed Yet\nauthor-mail <not.committed.yet>\nsummary Version of %s from %s\nfilename %s\n"
    )
    name = path.encode("utf-8", "surrogateescape")
    headers = template % (name, name, name)
    zeros = b"0" * 40
    if arguments.form == "incremental":
        return b"%s %d %d %d\n%s" % (zeros, lines[0].line, lines[0].line, len(lines), headers) if lines else b""
    return b"".join(b"%s %d %d 1\n%s\t%s\n" % (zeros, n.line, n.line, headers, n.content) for n in lines)
