"""Traps: what misleads a tool that matches contents, follows events, or believes a diff. Each is one function."""

from collections.abc import Callable, Sequence

from .code import Code
from .lines import PERSON, Line, written
from .world import How, World, author

LOADER = [
    b"def load_settings(path):",
    b"    try:",
    b"        handle = open(path)",
    b"    except OSError:",
    b"        return None",
    b"    return parse_settings(handle)",
]
"""What the agent proposes; people's own versions below share its boilerplate, its head, or most of it."""

OWN = {
    "boilerplate": [
        b"def fetch_remote(url):",
        b"    try:",
        b"        reply = request(url)",
        b"    except OSError:",
        b"        return None",
        b"    return reply.body",
    ],
    "signature": [
        b"def load_settings(path):",
        b"    text = Path(path).read_text()",
        b"    return tomllib.loads(text)",
    ],
    "signature and boilerplate": [
        b"def load_settings(path):",
        b"    try:",
        b"        return tomllib.loads(Path(path).read_text())",
        b"    except OSError:",
        b"        return None",
    ],
}

HEADER = [
    b"# Copyright 2026 The Example Authors. All rights reserved.",
    b"# Licensed under the Example License, version 2.0; you may not use this file",
    b"# except in compliance with that license.",
    b"",
]


def base(world: World, code: Code, path: str = "src/app.py", count: int = 4) -> list[Line]:
    """A file that a person has had for long."""
    world.begin({path: code.blocks(count)})
    return world.files[path]


def mine(world: World, texts: Sequence[bytes], session: int = 0) -> list[Line]:
    """New lines of a session."""
    return written(texts, author(world.sessions[session]))


def rejected(own: Sequence[bytes], *, by: str, turns: bool, how: How = "edit") -> Callable[[World, Code], None]:
    """A proposal is thrown away, and a person writes their own there."""

    def run(world: World, code: Code) -> None:
        old = base(world, code)
        agent = world.session()
        world.agent(agent, "src/app.py", [*old, *mine(world, LOADER)], how)
        if turns:
            world.stop(agent)
        if by == "checkout":
            world.git("checkout", "--", "src/app.py")
            world.files["src/app.py"] = old
        world.person("src/app.py", [*old, *written(own, PERSON)])
        if turns:
            world.prompt(agent)
            world.agent(agent, "src/other.py", mine(world, code.block()))
        world.commit()

    return run


def edited_inside(changed: Sequence[int], *, turns: bool, reread: bool) -> Callable[[World, Code], None]:
    """A person changes lines of a block that no commit has yet."""

    def run(world: World, code: Code) -> None:
        old = base(world, code)
        agent = world.session()
        block = mine(world, LOADER)
        world.agent(agent, "src/app.py", [*old, *block], "edit")
        if turns:
            world.stop(agent)
        own = [Line(b"        " + code.line(), PERSON) if i in changed else line for i, line in enumerate(block)]
        world.person("src/app.py", [*old, *own])
        if turns:
            world.prompt(agent)
        if reread:
            world.agent(agent, "src/app.py", [*world.files["src/app.py"], *mine(world, code.block())], "edit")
        world.commit()

    return run


def identical_boilerplate(world: World, code: Code) -> None:
    """An agent and a person end their functions alike, side by side."""
    old = base(world, code)
    agent = world.session()
    tail = [b"    except OSError:", b"        return None", b""]
    world.agent(
        agent,
        "src/app.py",
        [*old, *mine(world, [b"def read_token_file(path):", b"    try:", b"        return path.read_token()", *tail])],
        "edit",
    )
    world.person(
        "src/app.py",
        [
            *world.files["src/app.py"],
            *written([b"def read_cookie_jar(path):", b"    try:", b"        return path.cookies()", *tail], PERSON),
        ],
    )
    world.commit()
    world.person(
        "src/own.py",
        written([b"def another_reader(path):", b"    try:", b"        return path.another()", *tail], PERSON),
    )
    world.commit()


def common_lines(world: World, code: Code) -> None:
    """`}` and `return None` everywhere, from both."""
    old = base(world, code)
    agent = world.session()
    world.agent(agent, "src/app.py", [*old, *mine(world, [b"    }", b"    return None", b"}", b""])], "edit")
    world.commit()
    for n in range(3):
        world.person(f"src/own{n}.py", written([b"{", b"    }", b"    return None", b"}", b""], PERSON))
    world.person("src/app.py", [*written([b"    }", b"    return None", b"}"], PERSON), *world.files["src/app.py"]])
    world.commit()


def copy_above(how: How, *, told: bool) -> Callable[[World, Code], None]:
    """An agent puts a copy of a person's block right above it: only its own call tells which is which."""

    def run(world: World, code: Code) -> None:
        block = code.block()
        world.begin({"src/app.py": [*code.blocks(2), *block, *code.blocks(2)]})
        old = world.files["src/app.py"]
        at = next(i for i in range(len(old)) if [line.text for line in old[i : i + len(block)]] == block)
        agent = world.session("codex" if how == "patch" else "claude-code")
        new = [*old[:at], *mine(world, block), *old[at:]]
        world.exact = told
        if told:
            world.agent(agent, "src/app.py", new, how)
        else:
            world.untold(agent, "src/app.py", new, how)
        world.commit()

    return run


def reverted(*, own: Sequence[bytes], how: str) -> Callable[[World, Code], None]:
    """An agent's commit is taken back; then a person writes something like it."""

    def run(world: World, code: Code) -> None:
        old = base(world, code)
        agent = world.session()
        world.agent(agent, "src/app.py", [*old, *mine(world, LOADER)], "edit")
        world.commit()
        world.stop(agent)
        if how == "revert":
            world.git("revert", "--no-edit", "HEAD")
        else:
            world.git("reset", "-q", "--hard", "HEAD~1")
        world.files["src/app.py"] = old
        world.check()
        world.person("src/app.py", [*old, *written(own, PERSON)])
        world.commit()

    return run


def license_headers(world: World, code: Code) -> None:
    """Every file begins alike, whoever made it."""
    world.begin({"src/old.py": [*HEADER, *code.blocks(2)]})
    agent = world.session()
    world.agent(agent, "src/agents.py", mine(world, [*HEADER, *code.block()]))
    world.commit()
    world.person("src/persons.py", written([*HEADER, *code.block()], PERSON))
    world.agent(agent, "src/more.py", mine(world, [*HEADER, *code.block()]))
    world.commit()
    world.person("src/last.py", written([*HEADER, *code.block()], PERSON))
    world.commit()


def two_agents(world: World, code: Code) -> None:
    """Two sessions write the same block, and one rewrites a line of the other's."""
    old = base(world, code)
    one, two = world.session(), world.session("codex", "INT-002")
    block = mine(world, LOADER)
    world.agent(one, "src/app.py", [*old, *block], "edit")
    world.agent(two, "src/other.py", mine(world, LOADER, 1), "patch")
    changed = [*block[:2], *mine(world, [b"        handle = path.open()"], 1), *block[3:]]
    world.agent(two, "src/app.py", [*old, *changed], "patch")
    world.commit()


def deletes_only(world: World, code: Code) -> None:
    """An agent that only takes lines out wrote nothing."""
    old = base(world, code, count=6)
    agent = world.session()
    world.agent(agent, "src/app.py", [*old[:4], *old[9:]], "edit")
    world.agent(agent, "src/app.py", world.files["src/app.py"][:-3], "write")
    world.commit()


def whitespace_only(world: World, code: Code) -> None:
    """An agent indents a person's block: the words stay the person's."""
    old = base(world, code)
    agent = world.session()
    shifted = [
        Line(b"    " + line.text if line.text else line.text, line.who, {*line.also, *mine(world, [b""])[0].authors})
        if i < 6
        else line
        for i, line in enumerate(old)
    ]
    world.agent(agent, "src/app.py", shifted, "write")
    world.commit()
    world.person("src/app.py", [*shifted, *written(code.block(), PERSON)])
    world.commit()


def fast_cycles(world: World, code: Code) -> None:
    """Thirty edits, each committed at once; every third is a person's."""
    old = base(world, code)
    agent = world.session()
    lines = list(old)
    for n in range(30):
        fresh = [code.line(), b"    return None"]
        if n % 3:
            lines = [*lines, *mine(world, fresh)]
            world.agent(agent, "src/app.py", lines, "edit")
        else:
            lines = [*lines, *written(fresh, PERSON)]
            world.person("src/app.py", lines)
        world.commit()


def failed_call(world: World, code: Code) -> None:
    """A call that never came back, and a person who writes the same place."""
    old = base(world, code)
    agent = world.session()
    world.read(agent, "src/app.py")
    new = [*old, *mine(world, LOADER)]
    world.before(agent, world.called(agent, "src/app.py", new, "write"))
    world.person("src/app.py", [*old, *written(OWN["boilerplate"], PERSON)])
    world.commit()


def typed_again(world: World, code: Code) -> None:
    """A person deletes an agent's committed function, and much later writes one with the same head."""
    old = base(world, code)
    agent = world.session()
    world.agent(agent, "src/app.py", [*old, *mine(world, LOADER)], "edit")
    world.commit()
    world.person("src/app.py", old)
    world.commit()
    for _ in range(3):
        world.person("src/app.py", [*written([code.line()], PERSON), *world.files["src/app.py"]])
        world.commit()
    world.person("src/app.py", [*world.files["src/app.py"], *written(OWN["signature and boilerplate"], PERSON)])
    world.commit()


def copy_dropped(*, turns: bool) -> Callable[[World, Code], None]:
    """An agent copies what a person has just written, and the copy is dropped before the person commits theirs."""

    def run(world: World, code: Code) -> None:
        base(world, code)
        agent = world.session()
        own = code.block()
        world.person("src/own.py", written(own, PERSON))
        if turns:
            world.prompt(agent)
        world.read(agent, "src/own.py")
        world.agent(agent, "src/copy.py", mine(world, own))
        (world.root / "src/copy.py").unlink()
        del world.files["src/copy.py"]
        world.commit()

    return run


TRAPS: dict[str, Callable[[World, Code], None]] = {
    **{
        f"rejected: {name}, {by}{', turns' if turns else ''}": rejected(own, by=by, turns=turns)
        for name, own in OWN.items()
        for by in ("checkout", "editor")
        for turns in (False, True)
    },
    "rejected: written as a whole": rejected(OWN["boilerplate"], by="checkout", turns=False, how="write"),
    **{
        f"edited inside: {len(changed)} of 6{', turns' * turns}{', then the agent' * reread}": run
        for changed in ((2,), (2, 4), (1, 2, 5))
        for turns in (False, True)
        for reread in (False, True)
        for run in [edited_inside(changed, turns=turns, reread=reread)]
    },
    "identical boilerplate": identical_boilerplate,
    "common lines": common_lines,
    "copy above: edit": copy_above("edit", told=True),
    "copy above: edit, its answer diffed": copy_above("edit", told=False),
    "copy above: write": copy_above("write", told=True),
    "copy above: patch": copy_above("patch", told=False),
    **{
        f"reverted: {name}, {how}": reverted(own=own, how=how)
        for name, own in OWN.items()
        for how in ("revert", "reset")
    },
    "license headers": license_headers,
    "two agents, same lines": two_agents,
    "deletes only": deletes_only,
    "whitespace only": whitespace_only,
    "fast cycles": fast_cycles,
    "a call that never came back": failed_call,
    "typed again later": typed_again,
    "a copy that was dropped": copy_dropped(turns=True),
    "a copy that was dropped, of what nobody saw": copy_dropped(turns=False),
}
