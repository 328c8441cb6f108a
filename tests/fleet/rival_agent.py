"""An agent that writes some lines, and the files that it found: `python rival_agent.py INTENT LINES`."""

import sys
from pathlib import Path


def main(intent: str, lines: str) -> None:
    folder = Path.cwd() / "src" / intent.lower()
    found = sorted(path.name for path in folder.glob("*"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made.txt").write_text("line\n" * int(lines) + f"found {found}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
