"""Constructed truth: a seeded stream of everything that happens to files, with the author of every line known.

Where contents cannot tell (a person writes while a command runs, a formatter, a program in the background) *unknown*
is right, and so is either author; a third party is not. What a command wrote whose text tells nothing of it is `open`:
*unknown* is right, the agent is, and a person is not.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from .code import Code
from .lines import PERSON, PROCESS, Author, Line, rewritten, written
from .tools import Session
from .world import How, World, author

FILES = 4
STEPS = 40

Says = Literal["nothing", "the file", "a word", "the lines"]
"""What the text of a command tells of what it writes."""

SAYING: dict[Says, str] = {
    "nothing": "{program} && meet",
    "the file": "cat /dev/null >> {path}",
    "a word": "sed -i 's/None/{word}/' {path} && meet",
    "the lines": "{told}",
}

Lines = list[Line]
Move = Callable[["Stream"], None]


class Stream:
    """One run of the generator."""

    def __init__(self, world: World, code: Code, moves: dict[str, int]) -> None:
        self.world, self.code, self.rng = world, code, world.rng
        self.moves = moves
        world.begin({f"src/part{n}.py": code.blocks(4) for n in range(FILES)})
        self.sessions = [world.session(), world.session("codex", "INT-002")]
        self.sessions.append(world.session(intent="INT-003", subagent_of=self.sessions[0]))
        self.made = 0
        self.word = ""
        """What the last replacement put in."""

    def run(self, steps: int) -> None:
        names = list(self.moves)
        for _ in range(steps):
            name = self.rng.choices(names, list(self.moves.values()))[0]
            MOVES[name](self)
        self.world.commit()

    def session(self) -> Session:
        return self.rng.choice(self.sessions)

    def path(self) -> str:
        return self.rng.choice(sorted(self.world.files))

    def how(self, session: Session) -> How:
        tools: Sequence[How] = ("patch",) if session.agent == "codex" else ("write", "edit", "edit", "multi")
        return self.rng.choice(tools)

    def changed(self, path: str, who: Author) -> Lines:
        """The file after one change: a block put in, lines rewritten, lines taken out, or a block replaced."""
        old = self.world.files[path]
        at = self.rng.randrange(len(old) + 1)
        end = min(len(old), at + self.rng.randint(1, 5))
        match self.rng.choice(("insert", "insert", "rewrite", "delete", "replace")):
            case "insert":
                return [*old[:at], *written(self.code.block(), who), *old[at:]]
            case "rewrite":
                return [*old[:at], *written([b"    " + self.code.line() for _ in old[at:end]], who), *old[end:]]
            case "delete" if len(old) > 20:
                return [*old[:at], *old[end:]]
            case _:
                return [*old[:at], *written(self.code.block(), who), *old[end:]]

    def person(self, path: str) -> None:
        """A person changes a file, and nobody tells of it."""
        old = self.world.files[path]
        lines = self.changed(path, PERSON)
        for line in rewritten(old, lines, self.world.at_head(path)):
            line.open = True
        self.world.person(path, lines)

    def replaced(self, path: str, session: Session) -> Lines:
        """The file with another word in the place of each `None`."""
        self.made += 1
        self.word = f"no_{self.made}_such"
        who = author(session)
        texts = [(line, line.text.replace(b"None", self.word.encode(), 1)) for line in self.world.files[path]]
        return [line if line.text == text else Line(text, who) for line, text in texts]


def call(stream: Stream) -> None:
    """A file tool."""
    session, path = stream.session(), stream.path()
    how = stream.how(session)
    lines = stream.changed(path, author(session))
    stream.world.agent(session, path, lines, how)


def create(stream: Stream) -> None:
    """A new file."""
    session = stream.session()
    stream.made += 1
    path = f"src/made{stream.made}.py"
    stream.world.agent(
        session, path, written(stream.code.blocks(2), author(session)), "patch" if session.agent == "codex" else "write"
    )


def command(stream: Stream) -> None:
    """A command that says which file it writes."""
    session, path = stream.session(), stream.path()
    stream.world.agent(session, path, stream.changed(path, author(session)), "shell")


def script(stream: Stream) -> None:
    """A command that does not say what it writes."""
    session, path = stream.session(), stream.path()
    stream.world.agent(session, path, stream.changed(path, author(session)), "script")


def person(stream: Stream) -> None:
    """A person writes between calls."""
    path = stream.path()
    stream.person(path)


def person_between_turns(stream: Stream) -> None:
    """The agent's turn ends, a person writes, and asks again."""
    session, path = stream.session(), stream.path()
    stream.world.stop(session)
    stream.person(path)
    stream.world.prompt(session)


def meanwhile(*, same: bool, says: Says) -> Move:
    """A person writes while an agent's command runs: the file that it writes too, or another."""

    def move(stream: Stream) -> None:
        session, path, world = stream.session(), stream.path(), stream.world
        own = path if same else stream.rng.choice([p for p in sorted(world.files) if p != path])
        lines = stream.replaced(path, session) if says == "a word" else stream.changed(path, author(session))
        told = world.called(session, path, lines, "shell")[1]["command"]
        text = SAYING[says].format(path=path, told=told, word=stream.word, program=world.program(path, lines))

        def both() -> None:
            world.agent_wrote(session, path, lines, "shell" if says == "the lines" else "script")
            stream.person(own)

        def save() -> None:
            # The command's writes are there already, unless they are staged.
            if world.is_written(path, lines):
                world.credit(session, path, lines, "script")
            stream.person(own)

        if says in ("the file", "the lines"):
            world.shell(session, text, both)
            return
        was_contained = world.run(session, text, save)
        if was_contained and world.is_written(path, lines):
            world.credit(session, path, lines, "shell")
        world.check()

    return move


def background(stream: Stream) -> None:
    """A program that runs all the time writes, after a command of the agent's came back."""
    session, path = stream.session(), stream.path()
    stream.world.run(session, "python3 -c 'pass'")
    stream.world.person(path, stream.changed(path, PROCESS), PROCESS)


def formatter(stream: Stream) -> None:
    """A person lets a formatter run over a file: some lines get another layout, none another author."""
    path = stream.path()
    old = stream.world.files[path]
    stream.world.put(path, [relaid(line) if stream.rng.random() < 0.3 else line for line in old])


def agents_formatter(stream: Stream) -> None:
    """An agent's command lays a file out anew: its lines are still their authors', or the agent's."""
    session, path = stream.session(), stream.path()
    old, world = stream.world.files[path], stream.world
    lines = [relaid(line, author(session)) if stream.rng.random() < 0.3 else line for line in old]
    world.shell(session, f"cat /dev/null >> {path}", lambda: world.put(path, lines))


def relaid(line: Line, by: Author = PERSON) -> Line:
    """The line with white space at its end taken for layout: another text, the same words."""
    text = line.text.replace(b", ", b",").replace(b" = ", b"  =  ")
    return line if text == line.text else Line(text, line.who, {*line.also, by})


def commit(stream: Stream) -> None:
    stream.world.commit()


def proposal(stream: Stream) -> None:
    """An agent's change is thrown away, and a person writes there."""
    session, path = stream.session(), stream.path()
    stream.world.commit()
    old = stream.world.files[path]
    stream.world.agent(session, path, stream.changed(path, author(session)), stream.how(session))
    stream.world.git("checkout", "--", path)
    stream.world.files[path] = old
    stream.person(path)


def restart(stream: Stream) -> None:
    """A conversation ends, and another begins."""
    stream.world.end(stream.sessions[0])
    stream.sessions[0] = stream.world.session()
    stream.sessions[2] = stream.world.session(intent="INT-003", subagent_of=stream.sessions[0])


def away(stream: Stream) -> None:
    """What is not committed goes into a stash and comes back."""
    if stream.world.git("status", "--porcelain", "-uno"):
        stream.world.git("stash")
        stream.world.git("stash", "pop")


MOVES: dict[str, Move] = {
    "call": call,
    "create": create,
    "command": command,
    "script": script,
    "person": person,
    "person between turns": person_between_turns,
    "meanwhile, other file": meanwhile(same=False, says="the file"),
    "meanwhile, other file, silent command": meanwhile(same=False, says="nothing"),
    "meanwhile, same file": meanwhile(same=True, says="the file"),
    "meanwhile, same file, silent command": meanwhile(same=True, says="nothing"),
    "meanwhile, same file, told lines": meanwhile(same=True, says="the lines"),
    "meanwhile, other file, told lines": meanwhile(same=False, says="the lines"),
    "meanwhile, same file, told word": meanwhile(same=True, says="a word"),
    "background": background,
    "formatter": formatter,
    "agent's formatter": agents_formatter,
    "commit": commit,
    "proposal": proposal,
    "restart": restart,
    "stash": away,
}

BASIS = {"call": 10, "create": 1, "commit": 3}


def stream(moves: dict[str, int], steps: int = STEPS) -> Callable[[World, Code], None]:
    """A stream in which these things happen, that often beside the calls of agents and the commits."""
    return lambda world, code: Stream(world, code, {**BASIS, **moves}).run(steps)


EVERYTHING = {
    "command": 3,
    "script": 2,
    "person": 5,
    "person between turns": 3,
    "background": 1,
    "formatter": 1,
    "agent's formatter": 1,
    "proposal": 2,
    "restart": 1,
    "stash": 1,
}

CONSTRUCTED: dict[str, Callable[[World, Code], None]] = {
    "file tools only": stream({}),
    "commands that say what they write": stream({"command": 6}),
    "commands that do not": stream({"script": 6}),
    "a person between the calls": stream({"person": 8}),
    "a person between the turns": stream({"person between turns": 8}),
    "a person while a command writes another file": stream({"meanwhile, other file": 5}),
    "a person while a silent command writes another file": stream({"meanwhile, other file, silent command": 5}),
    "a person while a command writes the same file": stream({"meanwhile, same file": 5}),
    "a person while a silent command writes the same file": stream({"meanwhile, same file, silent command": 5}),
    "a person while a command that holds its lines writes the same file": stream(
        {"meanwhile, same file, told lines": 5}
    ),
    "a person while a command that holds its lines writes another": stream({"meanwhile, other file, told lines": 5}),
    "a person while a command replaces words in the same file": stream({"meanwhile, same file, told word": 5}),
    "a program in the background": stream({"background": 4}),
    "a formatter of the person's": stream({"formatter": 4}),
    "a formatter of the agent's": stream({"agent's formatter": 4}),
    "rejected proposals": stream({"proposal": 5}),
    "conversations that end": stream({"restart": 2, "person": 4}),
    "stashes": stream({"stash": 4, "person": 4}),
    "everything but people while commands run": stream(EVERYTHING, 80),
}
