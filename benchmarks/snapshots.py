"""What a snapshot before a shell call costs, beside `git status -uall` in the same run: a table, nothing asserted."""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from remit.workspace.git import Git
from remit.workspace.place import workspace_at
from remit.workspace.snapshots import Occasion, look_at, take
from remit.workspace.snapshots_git import GitStore

ROUNDS = 15
BARS = {20_000: 0.5, 100_000: 0.2}
DIRTY = 10


def repository(root: Path, files: int) -> list[str]:
    """A repository of so many small files; the names of those that will be dirty."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for number in range(files):
        path = root / f"d{number % 100}" / f"e{number % 1000 // 100}" / f"{number}.txt"
        if number < 1000:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    git = Git(root)
    git.run("add", "-A")
    git.run("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "all")
    return [f"d{number}/e0/{number}.txt" for number in range(DIRTY)]


def timed(step: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000


def measured(files: int) -> None:
    """One row of the table."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        dirty = repository(root, files)
        workspace = workspace_at(root, root)
        store = GitStore(workspace, "0123456789ab", stays=True)
        status: list[float] = []
        kept: list[float] = []
        for turn in range(ROUNDS):
            for path in dirty:
                (root / path).write_text(f"{turn} {path}\n")
            status.append(timed(lambda: Git(root).run("status", "--porcelain=v2", "-z", "-uall")))
            now = time.time()
            kept.append(
                timed(lambda at=now: take(store, workspace, Occasion("call"), look_at(workspace, dirty), at=at))
            )
        store.close()
        ratio = statistics.median(kept) / statistics.median(status)
        print(
            f"{files:>7} files  snapshot {statistics.median(kept):7.2f} ms   git status -uall "
            f"{statistics.median(status):7.2f} ms   {ratio:.2f} x   asked <= {BARS[files]}"
        )


if __name__ == "__main__":
    for size in BARS:
        measured(size)
