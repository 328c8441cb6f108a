"""What people do with the commits of a stretch: half a commit, a squash, a rebase, a merge, a file moved or removed."""

import random
import subprocess
from collections.abc import Callable, Sequence

from .lines import PERSON, Line, doubt, written
from .real_change import Change, Step
from .world import World, digest

Play = Callable[[Sequence[Step]], None]


def is_clean(world: World) -> bool:
    return not world.git("status", "--porcelain")


def commit_some(world: World, changes: Sequence[Change], rng: random.Random) -> None:
    """Some pieces of each file go into the index and a commit; the rest stays in the work tree."""
    world.git("add", "-A")
    for change in changes:
        if not change.done or change.path not in world.files:
            continue
        lines = change.lines({n for n in change.done if rng.random() < 0.5})
        if lines or change.base:
            stage(world, change.path, lines)
        else:
            world.git("rm", "-q", "--cached", change.path)
    world.git("commit", "-q", "--allow-empty", "-m", "a part")


def stage(world: World, path: str, lines: Sequence[Line]) -> None:
    """Give the index a version that the work tree does not have. What of the work tree's it left out, a diff tells."""
    doubt(world.files[path], lines, None)
    content = world.data_of(path, lines)
    run = ["git", "hash-object", "-w", "--stdin"]
    done = subprocess.run(run, cwd=world.root, env=world.environ, input=content, capture_output=True, check=True)
    world.git("update-index", "--add", "--cacheinfo", f"100644,{done.stdout.decode().strip()},{path}")
    world.known[path, digest(content)] = list(lines)


def below(world: World) -> int:
    """How many first-parent commits stand on the first one."""
    return int(world.git("rev-list", "--count", "--first-parent", "HEAD")) - 1


def squash(world: World, rng: random.Random) -> None:
    """The last commits become one."""
    if (count := min(rng.randint(2, 4), below(world))) > 1:
        world.git("reset", "--soft", f"HEAD~{count}")
        world.git("commit", "-q", "--allow-empty", "-m", "squashed")


def rebase(world: World, rng: random.Random) -> None:
    """The last commits go onto one that gave a file a head of two lines; where they do not fit, nothing happens."""
    base, number = f"HEAD~{rng.randint(1, 4)}", world.commits
    if below(world) < 5 or world.git("rev-list", "--merges", f"{base}..HEAD"):
        return
    path = rng.choice(sorted(path for path, lines in world.files.items() if lines))
    head = written([f"kept by the people of this project, {word} {number}".encode() for word in ("one", "two")], PERSON)
    world.git("checkout", "-q", "-b", f"side{number}", base)
    file = world.root / path
    if there := file.is_file():
        file.write_bytes(b"".join(line.text + b"\n" for line in head) + file.read_bytes())
        world.git("commit", "-q", "-am", "a head")
    world.git("checkout", "-q", "main")
    if not there:
        return
    world.git("rebase", "-q", f"side{number}", ok=(0, 1))
    if any((world.root / ".git" / name).exists() for name in ("rebase-merge", "rebase-apply")):
        world.git("rebase", "--abort")
        return
    for (name, _), lines in list(world.known.items()):
        if name == path:
            world.known[path, digest(world.data_of(path, [*head, *lines]))] = [*head, *lines]
    world.files[path] = [*head, *world.files[path]]
    world.check()


def merged(world: World, changes: Sequence[Change], steps: Sequence[Step], play: Play) -> None:
    """Half of the steps on a branch, half on main, then a merge; where it conflicts, a person settles it."""
    before = {change.path: world.files.get(change.path) for change in changes}
    half, name = len(steps) // 2, f"feature{world.commits}"
    world.git("checkout", "-q", "-b", name)
    play(steps[:half])
    world.commit()
    there = {change.path: set(change.done) for change in changes}
    world.git("checkout", "-q", "main")
    put_back(world, changes, before)
    made = {path for path, done in there.items() if done and before[path] is None}
    play([step for step in steps[half:] if step.change.path not in made])
    world.commit()
    world.git("merge", "-q", "--no-ff", "-m", "merge", name, ok=(0, 1))
    for change in changes:
        change.done |= there[change.path]
        if change.done:
            settled(world, change)
    world.git("add", "-A")
    world.git("commit", "-q", "--allow-empty", "-m", "after the merge")
    play([step for step in steps[half:] if step.change.path in made])


def put_back(world: World, changes: Sequence[Change], before: dict[str, list[Line] | None]) -> None:
    """What the other branch has."""
    for change in changes:
        lines = before[change.path]
        change.done.clear()
        if lines is None:
            world.files.pop(change.path, None)
        else:
            world.files[change.path] = lines


def settled(world: World, change: Change) -> None:
    """The file after a merge: all pieces of both sides."""
    world.files[change.path] = change.lines()
    world.remember(change.path)
    if (world.root / change.path).read_bytes() != world.data(change.path):
        world.put(change.path, change.lines())
