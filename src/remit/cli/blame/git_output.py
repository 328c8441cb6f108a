"""Running git blame, and joining its output with Remit's attribution."""

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Generic, ParamSpec, TypeVar

from msgspec import Struct

from remit.cli.blame.answer_dependencies import BlameGitSettings
from remit.cli.blame.arguments import BlameArguments, Form, option_name
from remit.provenance.blame import annotated_output
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.blame.git_format import commit_digits, render_as_git
from remit.provenance.origins.blame_porcelain import BlamePorcelain, GitLine
from remit.workspace.git.command import Git

P = ParamSpec("P")
T = TypeVar("T")

PROGRESS_OPTIONS = ("--progress", "--no-progress")
PORCELAIN_OPTIONS = {"-L", "-w", "-M", "-C", "--minimal", "--first-parent", "--ignore-rev", "--ignore-revs-file"}
"""Options without effect on the form for people: with only these, the form can be built from the porcelain."""

ABBREVIATE_ARGUMENTS = ("rev-list", "--no-walk=unsorted", "--abbrev-commit", "--stdin")
"""Arguments for the shortest unique name of each commit on standard input."""


class BackgroundTask(Generic[T]):
    """Work in a daemon thread with a result. `concurrent.futures` takes longer to import than blame to answer."""

    def __init__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._results: list[T] = []
        self._error: Exception | None = None

        def run_work() -> None:
            try:
                self._results.append(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  raised again by result()
                self._error = error

        self._thread = Thread(target=run_work, daemon=True)
        self._thread.start()

    @property
    def has_result(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> T:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]


class RunningBlame(Struct, frozen=True):
    """Running git processes: `lines` yields the porcelain, `display` the form to show.

    `display` is None if the porcelain serves both purposes.
    """

    lines: BackgroundTask[bytes]
    display: BackgroundTask[bytes] | None


class BlameStyle(Struct, frozen=True):
    """The look of the answer.

    `quoted`: git quotes file names. `safe`: escape text for a terminal. `narrow`: leave out model and grade.
    """

    coloured: bool = False
    letters: bool = False
    quoted: bool = True
    safe: bool = False
    narrow: bool = False


def can_use_porcelain(arguments: BlameArguments) -> bool:
    names = {option_name(option) for option in arguments.options}
    return arguments.form == "text" and not arguments.has_reverse_option and names <= PORCELAIN_OPTIONS


def start_blame(git: Git, arguments: BlameArguments, stdin: bytes, *, fewer: bool, only_lines: bool) -> RunningBlame:
    """Start git once, or twice in parallel if the requested form lacks the porcelain's information."""
    form = "porcelain" if arguments.form in ("text", "incremental") or only_lines else arguments.form
    if fewer and not only_lines and arguments.form == "porcelain":
        form = "line-porcelain"
    # Display options go to git as well, so that git validates their values.
    options = arguments.tracing_options if arguments.form == "text" else arguments.options
    words = (*options, *arguments.revisions, "--", arguments.file)
    lines = BackgroundTask(git.run, "blame", f"--{form}", *words, stdin=stdin)
    if only_lines or arguments.form in ("porcelain", "line-porcelain") or can_use_porcelain(arguments):
        return RunningBlame(lines, None)
    return RunningBlame(lines, BackgroundTask(run_display_blame, git, arguments, stdin))


def run_display_blame(git: Git, arguments: BlameArguments, stdin: bytes = b"") -> bytes:
    """Return git's output in the requested form. Raises GitError."""
    form = ["--incremental"] if arguments.form == "incremental" else []
    options = [option for option in arguments.options if option not in PROGRESS_OPTIONS]
    return git.run("blame", *form, *options, *arguments.revisions, "--", arguments.file, stdin=stdin)


def make_display(
    git: Git,
    arguments: BlameArguments,
    running: RunningBlame,
    porcelain: BlamePorcelain,
    settings: BackgroundTask[BlameGitSettings],
    path: str,
    narrow: bool = False,
) -> bytes:
    """Return the requested form, from git or built from its porcelain. Raises GitError.

    `path` is relative to git's top folder; `narrow` selects the form for terminals with few columns.
    """
    if running.display is not None:
        out = running.display.result()
        return escape_newlines_in_paths(out, porcelain) if arguments.form == "text" else out
    if not can_use_porcelain(arguments):
        return running.lines.result()
    committed = [name for name in porcelain.commits if name.strip("0")]
    if not committed or not settings.result().has_default_blame_format:
        return escape_newlines_in_paths(run_display_blame(git, arguments), porcelain)
    short = git.run(*ABBREVIATE_ARGUMENTS, stdin="".join(f"{name}\n" for name in committed).encode())
    lines = render_as_git(porcelain, path, commit_digits(short.split()), narrow=narrow)
    out = run_display_blame(git, arguments) if lines is None else b"\n".join([*lines, b""])
    return escape_newlines_in_paths(out, porcelain)


def escape_newlines_in_paths(out: bytes, porcelain: BlamePorcelain) -> bytes:
    """Replace line breaks in file names, which git prints unchanged, to keep each line on one row."""
    for path in {commit.version.path for commit in porcelain.commits.values() if commit.version}:
        if "\n" in path:
            raw = path.encode("utf-8", "surrogateescape")
            out = out.replace(raw, raw.replace(b"\n", b"?"))
    return out


def render_blame(
    arguments: BlameArguments, out: bytes, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: BlameStyle
) -> bytes:
    """Return git's output `out` in the requested form with Remit's columns; `shown` is the selected part of `lines`."""
    if arguments.form == "text":
        return render_text(arguments, out, lines, shown, style)
    if arguments.form == "incremental":
        annotated = annotated_output.annotate_incremental(out, shown, quoted=style.quoted)
    elif len(shown) < len(lines):
        selected = b"".join(line + b"\n" for line in annotated_output.select_lines(out, {line.line for line in shown}))
        annotated = annotated_output.annotate_porcelain(selected, shown, quoted=style.quoted)
    else:
        annotated = annotated_output.annotate_porcelain(out, shown, quoted=style.quoted)
    return b"".join(line + b"\n" for line in annotated)


def render_text(
    arguments: BlameArguments, out: bytes, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: BlameStyle
) -> bytes:
    raws = out.split(b"\n")[:-1]
    if len(shown) < len(lines):
        wanted = {line.line for line in shown}
        raws = [raw for raw, line in zip(raws, lines, strict=False) if line.line in wanted]
    annotated = annotated_output.annotate_text(
        [annotated_output.escape_for_terminal(raw) for raw in raws] if style.safe else raws,
        shown,
        letters=style.letters,
        coloured=style.coloured,
        compact="-s" in arguments.options or style.narrow,
    )
    counts = [annotated_output.count_origins(shown).encode()] if arguments.stats else []
    return b"\n".join([*annotated, *counts, b""])


def render_uncommitted(lines: Sequence[GitLine], form: Form, path: str, *, short: bool = False) -> bytes:
    """Return the lines of an uncommitted file in git's format; `short` is `-s`. Source: git-blame(1)."""
    if form == "text":
        width = len(str(lines[-1].line)) if lines else 1
        head = b"00000000 %*d) %s\n" if short else b"00000000 (Not Committed Yet %*d) %s\n"
        return b"".join(head % (width, line.line, line.content) for line in lines)
    template = (
        b"author Not Committed Yet\nauthor-mail <not.committed.yet>\nsummary Version of %s from %s\nfilename %s\n"
    )
    name = path.encode("utf-8", "surrogateescape")
    headers = template % (name, name, name)
    zeros = b"0" * 40
    if form == "incremental":
        return b"%s %d %d %d\n%s" % (zeros, lines[0].line, lines[0].line, len(lines), headers) if lines else b""
    return b"".join(b"%s %d %d 1\n%s\t%s\n" % (zeros, n.line, n.line, headers, n.content) for n in lines)
