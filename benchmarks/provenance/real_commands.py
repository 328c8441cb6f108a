"""Shell commands whose text holds what they write to a real file, and some that tell nothing."""

import random
from collections.abc import Callable, Sequence
from posixpath import dirname

from .lines import texts
from .real_history import whole
from .real_words import Edit, Region, Swap, swaps, unified

Spell = Callable[[Edit, random.Random], str | None]
"""The command, or None where this form cannot say the edit."""

SILENT = ("python3 gen.py", "make", "./tool --fix", "npm run build")


LONG = 60_000
"""Bytes of a file that no agent writes out in a command where a few lines can say it."""


def command(edit: Edit, rng: random.Random) -> str:
    """One of the forms that can say it; the whole text can say all."""
    names = list(SPELLS if edit.exists and edit.old and edit.new else WHOLE)
    rng.shuffle(names)
    if len(edit.content) > LONG:
        names.sort(key=lambda spell: spell in WHOLE)
    return next(text for spell in names if (text := spell(edit, rng)) is not None)


def heredoc(edit: Edit, rng: random.Random) -> str:
    return f"{folder(edit)}cat > {quoted(edit, rng)} <<'END_OF_TEXT'\n{edit.content}END_OF_TEXT"


def tee(edit: Edit, rng: random.Random) -> str:
    return f"{folder(edit)}tee {quoted(edit, rng)} > /dev/null <<'EOT'\n{edit.content}EOT\n"


def folder(edit: Edit) -> str:
    above = dirname(edit.path)
    return f"mkdir -p {above} && " if above and not edit.exists else ""


def quoted(edit: Edit, rng: random.Random) -> str:
    return f"'{edit.path}'" if rng.random() < 0.3 else edit.path


def python(edit: Edit, rng: random.Random) -> str | None:
    """Replacements, each text a literal of one line."""
    return program(edit, swaps(edit, rng, one=False), repr)


def python_lines(edit: Edit, rng: random.Random) -> str | None:
    """Replacements, each text as it stands in the file."""
    found = swaps(edit, rng, one=False) or []
    plain = all("'''" not in text and "\\" not in text and text[-1:] != "'" for swap in found for text in swap)
    return program(edit, found, lambda text: f"'''{text}'''") if plain else None


def program(edit: Edit, found: Sequence[Swap] | None, literal: Callable[[str], str]) -> str | None:
    if not found:
        return None
    steps = "".join(f"s = s.replace({literal(a)}, {literal(b)})\n" for a, b in found)
    head = f"from pathlib import Path\np = Path('{edit.path}')\ns = p.read_text()\n"
    return f"python3 - <<'PY'\n{head}{steps}p.write_text(s)\nPY"


def applied(edit: Edit, rng: random.Random) -> str:
    """A diff, given to a program that applies it."""
    name = rng.choice(("git apply", "patch -p1"))
    return f"{name} <<'PATCH'\n--- a/{edit.path}\n+++ b/{edit.path}\n{unified(edit)}PATCH"


def sed(edit: Edit, rng: random.Random) -> str | None:
    """Lines by their numbers, the last place first."""
    regions = edit.regions
    if len(regions) > 2:
        return None
    parts = [sed_part(edit, region) for region in reversed(regions)]
    return f"sed -i {' '.join(part for part in parts if part)} {quoted(edit, rng)}" if all(parts) else None


def sed_part(edit: Edit, region: Region) -> str | None:
    put = [text.decode() for text in edit.after[region.to : region.stop]]
    if len(put) > 2 or any("'" in text for text in put) or (put and region.at == region.end == 0):
        return None
    if not put:
        return f"-e '{region.at + 1},{region.end}d'"
    place = f"{region.at}a" if region.at == region.end else f"{region.at + 1},{region.end}c"
    return f"-e '{place}\\\n" + "\\\n".join(text.replace("\\", "\\\\") for text in put) + "'"


def append(edit: Edit, rng: random.Random) -> str | None:
    """More lines at the end of the file."""
    [first, *others] = edit.regions
    if others or not first.at == first.end == len(edit.old):
        return None
    return f"cat >> {quoted(edit, rng)} <<'EOT'\n{whole(texts(edit.new[first.to :])).decode()}EOT"


WHOLE: tuple[Spell, ...] = (heredoc, tee)
SPELLS: tuple[Spell, ...] = (*WHOLE, python, python_lines, applied, applied, sed, append)
