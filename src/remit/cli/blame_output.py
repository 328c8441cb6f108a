"""Running git for `remit blame`, and putting its words and ours together."""

from collections.abc import Sequence

from msgspec import Struct

from remit.cli.blame_arguments import Asked, Form, name_of
from remit.cli.blame_state import Settings
from remit.cli.later import Later
from remit.provenance.blame import annotated
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.blame.people_form import lines_for_people, width_of_names
from remit.provenance.origins.porcelain import GitLine, Porcelain
from remit.workspace.git import Git

NEVER_SHOWN = ("--progress", "--no-progress")
SHORTENING = ("rev-list", "--no-walk=unsorted", "--abbrev-commit", "--stdin")
"""The shortest name of each commit."""


class Running(Struct, frozen=True):
    """git at work: `lines` tell where each line comes from, `shown` is what a person or a program is to read.

    They are one where the form is a porcelain.
    """

    lines: Later[bytes]
    shown: Later[bytes] | None


ONE_GIT = {"-L", "-w", "-M", "-C", "--minimal", "--first-parent", "--ignore-rev", "--ignore-revs-file"}
"""Options that leave the form for people as it is: with no others, the porcelain tells all that it shows."""


def by_porcelain(asked: Asked) -> bool:
    """Whether the form that is asked for may be made from the porcelain."""
    return asked.form == "text" and not asked.reversed and {name_of(option) for option in asked.options} <= ONE_GIT


def start(git: Git, asked: Asked, typed: bytes, *, fewer: bool, only_lines: bool) -> Running:
    """Start git, twice where the form that is asked for does not tell enough; both at once."""
    words = (*asked.revisions, "--", asked.file)
    form = "porcelain" if asked.form in ("text", "incremental") or only_lines else asked.form
    form = "line-porcelain" if fewer and not only_lines and asked.form == "porcelain" else form
    options = asked.tracing if asked.form == "text" else asked.options  # whose values git is to find fault with
    lines = Later(git.run, "blame", f"--{form}", *options, *words, stdin=typed)
    if only_lines or asked.form in ("porcelain", "line-porcelain") or by_porcelain(asked):
        return Running(lines, None)
    return Running(lines, Later(in_gits_words, git, asked, typed))


def in_gits_words(git: Git, asked: Asked, typed: bytes = b"") -> bytes:
    """What git says in the form that is asked for. Raises GitError."""
    shape = [f"--{asked.form}"] * (asked.form == "incremental")
    options = [option for option in asked.options if option not in NEVER_SHOWN]
    return git.run("blame", *shape, *options, *asked.revisions, "--", asked.file, stdin=typed)


def made(
    git: Git, asked: Asked, run: Running, found: Porcelain, told: Later[Settings], path: str, narrow: bool = False
) -> bytes:
    """Git's words in the form that is asked for: as git said them, or made from its porcelain. Raises GitError.

    `path` is the file from the root of git's repository; `narrow` is for a terminal with few columns.
    """
    if run.shown is not None:
        return row_by_row(run.shown.result(), found) if asked.form == "text" else run.shown.result()
    if not by_porcelain(asked):
        return run.lines.result()
    committed = [name for name in found.commits if name.strip("0")]
    if not committed or not told.result().shows_blame_plainly:
        return row_by_row(in_gits_words(git, asked), found)
    short = git.run(*SHORTENING, stdin="".join(f"{name}\n" for name in committed).encode())
    lines = lines_for_people(found, path, width_of_names(short.split()), narrow=narrow)
    out = in_gits_words(git, asked) if lines is None else b"\n".join([*lines, b""])
    return row_by_row(out, found)


def row_by_row(out: bytes, found: Porcelain) -> bytes:
    """Lines for people of which each is one row: git writes a name with a line break in it as it stands."""
    for path in {commit.place.path for commit in found.commits.values() if commit.place}:
        if "\n" in path:
            raw = path.encode("utf-8", "surrogateescape")
            out = out.replace(raw, raw.replace(b"\n", b"?"))
    return out


class Style(Struct, frozen=True):
    """How the answer is to look.

    `quoted` is whether git quotes file names, `safe` whether a terminal shows them. A `narrow` form has neither model
    nor grade.
    """

    coloured: bool = False
    letters: bool = False
    quoted: bool = True
    safe: bool = False
    narrow: bool = False


def rendered(asked: Asked, out: bytes, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: Style) -> bytes:
    """Git's words `out` in the form that was asked for, with ours. `shown` are those of `lines` that are wanted."""
    if asked.form == "text":
        return text(asked, out, lines, shown, style)
    if asked.form == "incremental":
        found = annotated.incremental(out, shown, quoted=style.quoted)
    elif len(shown) < len(lines):
        kept = b"".join(line + b"\n" for line in annotated.chosen(out, {line.line for line in shown}))
        found = annotated.porcelain(kept, shown, quoted=style.quoted)
    else:
        found = annotated.porcelain(out, shown, quoted=style.quoted)
    return b"".join(line + b"\n" for line in found)


def text(asked: Asked, out: bytes, lines: Sequence[BlamedLine], shown: Sequence[BlamedLine], style: Style) -> bytes:
    """The lines for people."""
    raws = out.split(b"\n")[:-1]
    if len(shown) < len(lines):
        wanted = {line.line for line in shown}
        raws = [raw for raw, line in zip(raws, lines, strict=False) if line.line in wanted]
    found = annotated.text(
        [annotated.harmless(raw) for raw in raws] if style.safe else raws,
        shown,
        plain=style.letters,
        coloured=style.coloured,
        short="-s" in asked.options or style.narrow,
    )
    counted = [annotated.counts(shown).encode()] if asked.stats else []
    return b"\n".join([*found, *counted, b""])


def uncommitted(lines: Sequence[GitLine], form: Form, path: str, *, short: bool = False) -> bytes:
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
