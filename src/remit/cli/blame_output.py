"""Running git for `remit blame`, and putting its words and ours together."""

from collections.abc import Sequence
from concurrent.futures import Executor, Future

from msgspec import Struct

from remit.cli.blame_arguments import Asked, Form
from remit.provenance import annotated
from remit.provenance.blame import BlamedLine
from remit.provenance.porcelain import GitLine
from remit.workspace.git import Git

NEVER_SHOWN = ("--progress", "--no-progress")


class Running(Struct, frozen=True):
    """git at work: `lines` tell where each line comes from, `shown` is what a person or a program is to read.

    They are one where the form is a porcelain.
    """

    lines: Future[bytes]
    shown: Future[bytes] | None


def start(pool: Executor, git: Git, asked: Asked, typed: bytes, *, fewer: bool, only_lines: bool) -> Running:
    """Start git, twice where the form that is asked for does not tell enough; both at once."""
    words = (*asked.revisions, "--", asked.file)
    form = "porcelain" if asked.form in ("text", "incremental") or only_lines else asked.form
    form = "line-porcelain" if fewer and form == "porcelain" else form
    lines = pool.submit(git.run, "blame", f"--{form}", *asked.tracing, *words, stdin=typed)
    if only_lines or asked.form in ("porcelain", "line-porcelain"):
        return Running(lines, None)
    shape = [f"--{asked.form}"] * (asked.form == "incremental")
    options = [option for option in asked.options if option not in NEVER_SHOWN]
    return Running(lines, pool.submit(git.run, "blame", *shape, *options, *words, stdin=typed))


class Style(Struct, frozen=True):
    """How the answer is to look. `quoted` is whether git quotes file names, `safe` whether a terminal shows them."""

    coloured: bool = False
    letters: bool = False
    quoted: bool = True
    safe: bool = False


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
    wanted = {line.line for line in shown}
    raws = [raw for raw, line in zip(out.split(b"\n"), lines, strict=False) if line.line in wanted]
    found = annotated.text(
        [annotated.harmless(raw) for raw in raws] if style.safe else raws,
        shown,
        plain=style.letters,
        coloured=style.coloured,
        short="-s" in asked.options,
    )
    counted = [annotated.counts(shown).encode()] if asked.stats else []
    return b"".join(line + b"\n" for line in [*found, *counted])


def uncommitted(lines: Sequence[GitLine], form: Form, path: str) -> bytes:
    """The lines of a file that no commit has, as git writes those that it does know. Source: git-blame(1)."""
    if form == "text":
        width = len(str(lines[-1].line)) if lines else 1
        return b"".join(b"00000000 (Not Committed Yet %*d) %s\n" % (width, line.line, line.content) for line in lines)
    about = b"author Not Committed Yet\nauthor-mail <not.committed.yet>\nsummary Version of %s from %s\nfilename %s\n"
    name = path.encode("utf-8", "surrogateescape")
    headers = about % (name, name, name)
    zeros = b"0" * 40
    if form == "incremental":
        return b"%s %d %d %d\n%s" % (zeros, lines[0].line, lines[0].line, len(lines), headers) if lines else b""
    return b"".join(b"%s %d %d 1\n%s\t%s\n" % (zeros, n.line, n.line, headers, n.content) for n in lines)
