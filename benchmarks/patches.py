"""How many of two small edits of one file both find their place: `.venv/bin/python benchmarks/patches.py [PAIRS]`.

Both edits are made for the same base. The first is there already when the second comes as a patch. Counted is what
git's own `git apply` takes, what Remit takes (exact, else three-way with the recorded base), and how often either is
wrong: a line of one edit that is missing afterwards, or stands in another order.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

from remit.tools.exchange import merge_contents
from remit.workspace.git.command import Git

PAIRS = 400


def edit(base: list[str], random: Random, side: str) -> list[str]:
    """One to three places of one file changed: lines replaced, added, removed."""
    lines = list(base)
    for number in range(random.randrange(1, 4)):
        at = random.randrange(len(lines))
        lines[at : at + random.randrange(3)] = [
            f"    {side}_{number}_{k} = {k}\n" for k in range(random.randrange(1, 3))
        ]
    return lines


def is_right(merged: str, ours: list[str], theirs: list[str]) -> bool:
    lines = merged.splitlines(keepends=True)
    sides = (("ours_", ours), ("theirs_", theirs))
    return all([x for x in lines if mark in x] == [x for x in text if mark in x] for mark, text in sides)


def apply_with_git(folder: Path, base: str, ours: str, theirs: str) -> str | None:
    place, other = folder / "f.py", folder / "g.py"
    place.write_text(base)
    other.write_text(theirs)
    words = ["git", "-C", str(folder), "diff", "--no-index", "f.py", "g.py"]
    diff = subprocess.run(words, capture_output=True, check=False).stdout.replace(b"g.py", b"f.py")
    place.write_text(ours)
    done = subprocess.run(["git", "-C", str(folder), "apply", "-"], input=diff, capture_output=True, check=False)
    return place.read_text() if done.returncode == 0 else None


def main(pairs: int) -> None:
    random = Random(20)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["git", "-C", name, "init", "-q"], check=True)
        git, counts = Git(folder), dict.fromkeys(("git", "git wrong", "remit", "remit wrong", "both differ"), 0)
        for _ in range(pairs):
            base = [f"def function_{n}(argument):  # line {n}\n" for n in range(random.randrange(20, 120))]
            ours, theirs = edit(base, random, "ours"), edit(base, random, "theirs")
            texts = ["".join(text) for text in (base, ours, theirs)]
            plain = apply_with_git(folder, *texts)
            merged = merge_contents(git, texts[1].encode(), texts[0].encode(), texts[2].encode())
            counts["git"] += plain is not None
            counts["git wrong"] += plain is not None and not is_right(plain, ours, theirs)
            counts["remit"] += merged is not None
            counts["remit wrong"] += merged is not None and not is_right(merged.decode(), ours, theirs)
            counts["both differ"] += None not in (plain, merged) and plain.encode() != merged  # pyright: ignore
        print(f"{'of':>12} {pairs:5}")
        for what, count in counts.items():
            print(f"{what:>12} {count:5} {100 * count / pairs:5.1f} %")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
