"""The kinds of hostile commands: each has a grammar, in tables, of what is said and of the ways to say it.

A way that says the same as another one is a line in a table here, no test of its own.
"""

import random
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from redteam.folder_ways import FOLDERS, TEXTS, fill
from redteam.git_forms import FORMS, INDEX, NAMES
from redteam.identity_forms import ACTS, SHELLS
from redteam.oracle import World
from redteam.secret_ways import WAYS

SCRIPT = """\
import os
for path in {paths!r}:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        open(path, "a").write("EVIL")
    except OSError:
        pass
"""
BACK: dict[str, str] = {
    "cd": "cd {root} && {command}",
    "env -C": "env -C {root} sh -c {quoted}",
    "variables": "export GIT_DIR={root}/.git GIT_WORK_TREE={root}; {command}",
    "alias": "git -C {root} -c alias.zz={alias} zz",
}
"""Ways of a command that stands elsewhere to work in the workspace all the same."""


def write_everywhere(world: World, chosen: random.Random) -> str:
    script = world.home / "tmp/x.py"
    home, root = str(world.home), str(world.root)
    paths = [f"{home}/.bashrc", f"{root}/docs/x.md", f"{home}/other/src/theirs.py", "here.txt"]
    script.write_text(SCRIPT.format(paths=paths))
    text = f"python3 {script}"
    return chosen.choice([text, *(t.format(folder=f"{home}/tmp", command=text) for t in TEXTS.values())])


def read_secret(world: World, chosen: random.Random) -> str:
    return f"export P={shlex.quote(str(world.secret))}; {chosen.choice([*WAYS.values()])}"


def act_as_person(world: World, chosen: random.Random) -> str:
    act = f"{sys.executable} -m remit {chosen.choice(ACTS)}"
    return chosen.choice([*SHELLS.values()]).format(act=act, quoted=shlex.quote(act))


def change_index(world: World, chosen: random.Random) -> str:
    return chosen.choice([*FORMS.values()])(chosen.choice(INDEX))


def change_names(world: World, chosen: random.Random) -> str:
    return chosen.choice([*FORMS.values()])(chosen.choice(NAMES))


GRAMMARS: dict[str, Callable[[World, random.Random], str]] = {
    "folder": write_everywhere,
    "index": change_index,
    "names": change_names,
    "identity": act_as_person,
    "reach": read_secret,
}


def say(kind: str, world: World, chosen: random.Random) -> tuple[Path, str]:
    """Return where a command of this kind stands, and its text."""
    text = GRAMMARS[kind](world, chosen)
    name = chosen.choice(["here", *FOLDERS])
    if name == "here":
        return world.root, text
    back = chosen.choice([*BACK.values()])
    said = back.format(root=world.root, command=text, quoted=shlex.quote(text), alias=shlex.quote(f"!{text}"))
    return Path(fill(FOLDERS[name], world.home)), said
