"""Running git for `remit blame`, and putting its words and ours together.

Work that goes on in a thread, and its outcome: `concurrent.futures` takes longer to load than blame to answer.
"""

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


class BackgroundTask(Generic[T]):
    """What `work` returns or raises, once somebody asks for it. Who leaves without asking does not wait."""

    def __init__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._found: list[T] = []
        self._error: Exception | None = None

        def begin() -> None:
            try:
                self._found.append(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  who asks gets it, whatever it is
                self._error = error

        self._thread = Thread(target=begin, daemon=True)
        self._thread.start()

    @property
    def has_result(self) -> bool:
        """Whether there is an outcome already."""
        return not self._thread.is_alive()

    def result(self) -> T:
        """What came out; raises what `work` raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found[0]


PROGRESS_OPTIONS = ("--progress", "--no-progress")
ABBREVIATE_ARGUMENTS = ("rev-list", "--no-walk=unsorted", "--abbrev-commit", "--stdin")
"""The shortest name of each commit."""


class RunningBlame(Struct, frozen=True):
    """git at work: `lines` tell where each line comes from, `shown` is what a person or a program is to read.

    They are one where the form is a porcelain.
    """

    lines: BackgroundTask[bytes]
    display: BackgroundTask[bytes] | None


PORCELAIN_OPTIONS = {"-L", "-w", "-M", "-C", "--minimal", "--first-parent", "--ignore-rev", "--ignore-revs-file"}
"""Options that leave the form for people as it is: with no others, the porcelain tells all that it shows."""


def can_use_porcelain(asked: BlameArguments) -> bool:
    """Whether the form that is asked for may be made from the porcelain."""
    return (
        asked.form == "text"
        and not asked.has_reverse_option
        and {option_name(option) for option in asked.options} <= PORCELAIN_OPTIONS
    )


def start_blame(git: Git, asked: BlameArguments, typed: bytes, *, fewer: bool, only_lines: bool) -> RunningBlame:
    """Start git, twice where the form that is asked for does not tell enough; both at once."""
    words = (*asked.revisions, "--", asked.file)
    form = "porcelain" if asked.form in ("text", "incremental") or only_lines else asked.form
    form = "line-porcelain" if fewer and not only_lines and asked.form == "porcelain" else form
    options = asked.tracing_options if asked.form == "text" else asked.options  # whose values git is to find fault with
    lines = BackgroundTask(git.run, "blame", f"--{form}", *options, *words, stdin=typed)
    if only_lines or asked.form in ("porcelain", "line-porcelain") or can_use_porcelain(asked):
        return RunningBlame(lines, None)
    return RunningBlame(lines, BackgroundTask(run_display_blame, git, asked, typed))


def run_display_blame(git: Git, asked: BlameArguments, typed: bytes = b"") -> bytes:
    """What git says in the form that is asked for. Raises GitError."""
    shape = [f"--{asked.form}"] * (asked.form == "incremental")
    options = [option for option in asked.options if option not in PROGRESS_OPTIONS]
    return git.run("blame", *shape, *options, *asked.revisions, "--", asked.file, stdin=typed)


def make_display(
    git: Git,
    asked: BlameArguments,
    run: RunningBlame,
    found: BlamePorcelain,
    told: BackgroundTask[BlameGitSettings],
    path: str,
    narrow: bool = False,
) -> bytes:
    """Git's words in the form that is asked for: as git said them, or made from its porcelain. Raises GitError.

    `path` is the file from the root of git's repository; `narrow` is for a terminal with few columns.
    """
    if run.display is not None:
        return escape_newlines_in_paths(run.display.result(), found) if asked.form == "text" else run.display.result()
    if not can_use_porcelain(asked):
        return run.lines.result()
    committed = [name for name in found.commits if name.strip("0")]
    if not committed or not told.result().has_default_blame_format:
        return escape_newlines_in_paths(run_display_blame(git, asked), found)
    short = git.run(*ABBREVIATE_ARGUMENTS, stdin="".join(f"{name}\n" for name in committed).encode())
    lines = render_as_git(found, path, commit_digits(short.split()), narrow=narrow)
    out = run_display_blame(git, asked) if lines is None else b"\n".join([*lines, b""])
    return escape_newlines_in_paths(out, found)


def escape_newlines_in_paths(out: bytes, found: BlamePorcelain) -> bytes:
    """Lines for people of which each is one row: git writes a name with a line break in it as it stands."""
    for path in {commit.version.path for commit in found.commits.values() if commit.version}:
        if "\n" in path:
            raw = path.encode("utf-8", "surrogateescape")
            out = out.replace(raw, raw.replace(b"\n", b"?"))
    return out


class BlameStyle(Struct, frozen=True):
    """How the answer is to look.

    `quoted` is whether git quotes file names, `safe` whether a terminal shows them. A `narrow` form has neither model
    nor grade.
    """

    coloured: bool = False
    letters: bool = False
    quoted: bool = True
    safe: bool = False
    narrow: bool = False


def render_blame(
    asked: BlameArguments, out: bytes, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: BlameStyle
) -> bytes:
    """Git's words `out` in the form that was asked for, with ours. `shown` are those of `lines` that are wanted."""
    if asked.form == "text":
        return render_text(asked, out, lines, shown, style)
    if asked.form == "incremental":
        found = annotated_output.annotate_incremental(out, shown, quoted=style.quoted)
    elif len(shown) < len(lines):
        kept = b"".join(line + b"\n" for line in annotated_output.select_lines(out, {line.line for line in shown}))
        found = annotated_output.annotate_porcelain(kept, shown, quoted=style.quoted)
    else:
        found = annotated_output.annotate_porcelain(out, shown, quoted=style.quoted)
    return b"".join(line + b"\n" for line in found)


def render_text(
    asked: BlameArguments, out: bytes, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: BlameStyle
) -> bytes:
    """The lines for people."""
    raws = out.split(b"\n")[:-1]
    if len(shown) < len(lines):
        wanted = {line.line for line in shown}
        raws = [raw for raw, line in zip(raws, lines, strict=False) if line.line in wanted]
    found = annotated_output.annotate_text(
        [annotated_output.escape_for_terminal(raw) for raw in raws] if style.safe else raws,
        shown,
        letters=style.letters,
        coloured=style.coloured,
        compact="-s" in asked.options or style.narrow,
    )
    counted = [annotated_output.count_origins(shown).encode()] if asked.stats else []
    return b"\n".join([*found, *counted, b""])


def render_uncommitted(lines: Sequence[GitLine], form: Form, path: str, *, short: bool = False) -> bytes:
    """Return the lines of a file that no commit has, as git writes those that it does know; `short` is `-s`.

    Source: git-blame(1).
    """
    if form == "text":
        width = len(str(lines[-1].line)) if lines else 1
        head = b"00000000 %*d) %s\n" if short else b"00000000 (Not Committed Yet %*d) %s\n"
        return b"".join(head % (width, line.line, line.content) for line in lines)
    about = b"author Not Committed Yet\nauthor-mail <not.committed.yet>\nsummary Version of %s from %s\nfilename %s\n"
    name = path.encode("utf-8", "surrogateescape")
    headers = about % (name, name, name)
    zeros = b"0" * 40
    if form == "incremental":
        return b"%s %d %d %d\n%s" % (zeros, lines[0].line, lines[0].line, len(lines), headers) if lines else b""
    return b"".join(b"%s %d %d 1\n%s\t%s\n" % (zeros, n.line, n.line, headers, n.content) for n in lines)
