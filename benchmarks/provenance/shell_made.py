"""Files that an agent's shell commands change, in every way that agents do it: each command really runs."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .code import Code
from .lines import PERSON, Author, Line, texts, written
from .scenario import Run
from .tools import Session
from .world import BrokenScenario, World, author

APP, SECOND, MINE = "src/app.py", "src/second.py", "src/mine.py"

GENERATOR = """\
import pathlib
rows = [f"row_{{number}} = make_row({{number * 7}}, '{word}')" for number in range(9)]
pathlib.Path("src/generated.py").write_text("\\n".join(rows) + "\\n")
"""

MAKEFILE = "all:\n\tpython3 gen.py\n"
PACKAGE = '{\n  "name": "example",\n  "version": "1.0.0",\n  "dependencies": {\n    "left": "1.0.0"\n  }\n}'

UNFORMATTED = """\
settings_{0} = {{ 'alpha_{0}':1,
  'beta_{0}' : [1,2,3] }}
def convert_{0}( first, second ):
    return combine_{0}( first,second , 'text' )"""

PATCH = """\
--- a/src/app.py
+++ b/src/app.py
@@ -1,3 +1,5 @@
 def handler_0(request, name_0):
+    check_access_of({word}, request)
+    note_visit_by(name_0, '{word}')
     total_0 = compute(request, 10)
     return total_0
"""

PYTHON = """\
import pathlib
file = pathlib.Path("src/app.py")
file.write_text(file.read_text().replace("compute(request", "reckon_{word}(given"))
"""

COMMANDS: dict[str, str] = {
    # The text holds the lines.
    "heredoc, a new file": "cat > src/new.py <<'E'\ndef fresh_{word}():\n    return 'a {word}'\nE",
    "heredoc, appended": "cat >> src/app.py <<'E'\n\ndef fresh_{word}():\n    return 'a {word}'\nE",
    "heredoc after cd": "cd src && cat > new.py <<'E'\ndef fresh_{word}():\n    return 'a {word}'\nE",
    "echo": "echo 'fresh_{word} = compute_{word}(1)' >> src/app.py",
    "printf": "printf 'fresh_%s = compute_{word}(1)\\n' one two > src/new.py",
    "tee": "printf 'fresh_{word} = compute_{word}(1)\\n' | tee -a src/app.py > /dev/null",
    "python heredoc": "python3 - <<'E'\n" + PYTHON + "E",
    "python -c": "python3 -c 'open(\"src/new.py\", \"w\").write(\"fresh_{word} = [1, 2, 3]\\n\")'",
    "git apply heredoc": "git apply <<'E'\n" + PATCH + "E",
    # sed and what stands in for it.
    "sed, a word": "sed -i 's/compute/reckon_{word}/' src/app.py",
    "sed, several files": "sed -i 's/compute/reckon_{word}/' src/*.py",
    "sed, groups": "sed -i 's/compute(\\([a-z]*\\), \\([0-9]*\\))/compute(\\2, \\1)/' src/app.py",
    "sed, extended groups": "sed -i -E 's/compute\\(([a-z]+), ([0-9]+)\\)/compute(\\2, \\1)/' src/app.py",
    "sed, a set of characters": "sed -i 's/total_[0-9]* =/total_{word} =/' src/app.py",
    "sed, the match": "sed -i 's/compute/outer_&/' src/app.py",
    "sed, two expressions": "sed -i -e 's/request/given/' -e 's/compute/reckon_{word}/' src/app.py",
    "sed, from a line to a line": "sed -i '/handler_2/,/handler_4/ s/total/amount_{word}/' src/app.py",
    "sed, the last pattern": "sed -i '/total_1 =/,/total_3 =/ s//amount_{word} =/' src/app.py",
    "sed, line numbers": "sed -i '2,6s/total/amount_{word}/' src/app.py",
    "sed, after a line": "sed -i '3a\\fresh_{word} = compute_{word}(1)' src/app.py",
    "sed, before and at the end": "sed -i -e '1i first_{word} = begin(1)' -e '$a last_{word} = end(1)' src/app.py",
    "sed, in a loop": "for f in src/app.py src/second.py; do sed -i 's/compute/reckon_{word}/' $f; done",
    "sed, to another name and back": "sed 's/compute/reckon_{word}/' src/app.py > src/f2 && mv src/f2 src/app.py",
    "find and sed": "find src -name '*.py' -exec sed -i 's/compute/reckon_{word}/' {{}} +",
    "grep, xargs and sed": "grep -l compute -r src | xargs sed -i 's/compute/reckon_{word}/'",
    "perl": "perl -pi -e 's/compute/reckon_{word}/' src/app.py",
    "perl, groups": "perl -pi -e 's/compute\\((\\w+), (\\d+)\\)/compute($2, $1)/' src/app.py",
    "perl, the whole file": "perl -0pi -e 's/compute\\(request/reckon_{word}(given/g' src/app.py",
    "awk and mv": "awk '{{gsub(/compute/, \"reckon_{word}\"); print}}' src/app.py > t && mv t src/app.py",
    "ex": "ex -s -c '%s/compute/reckon_{word}/' -c x src/app.py",
    # The text does not hold the lines.
    "a generator": "python3 gen.py",
    "make": "make -s",
    "node": "node -e 'const fs = require(\"fs\"), f = \"package.json\", p = JSON.parse(fs.readFileSync(f)); "
    "p.dependencies.{word} = \"2.\" + 1; p.scripts = {{ test: \"run-{word}\" }}; "
    "fs.writeFileSync(f, JSON.stringify(p, null, 2) + \"\\n\")'",
    # Files that go elsewhere.
    "mv of the agent's file": "mv src/mine.py src/moved.py",
    "cp of the agent's file": "cp src/mine.py src/copy.py",
    "git mv of the agent's file": "git mv src/mine.py src/moved.py",
    "mv of a person's file": "mv src/second.py src/moved.py",
    "cp of a person's file": "cp src/second.py src/copy.py",
    "git mv of a person's file": "git mv src/second.py src/moved.py",
}  # fmt: skip


def prepared(world: World, code: Code) -> tuple[Session, str]:
    """A person's files, a session that has read them, and a word that no file holds yet."""
    word = code.line().decode().split(" ")[0]
    handlers = [
        f"def handler_{n}(request, name_{n}):\n    total_{n} = compute(request, {n + 10})\n    return total_{n}\n"
        for n in range(10)
    ]
    texts = {
        APP: "\n".join(handlers),
        SECOND: "\n".join(f"other_{n} = compute(name_{n}, {n})" for n in range(11)),
        "gen.py": GENERATOR.format(word=word).removesuffix("\n"),
        "Makefile": MAKEFILE.removesuffix("\n"),
        "package.json": PACKAGE,
    }
    world.begin({path: text.encode().split(b"\n") for path, text in texts.items()})
    session = world.session()
    for path in (APP, SECOND, "package.json"):
        world.read(session, path)
    return session, word


def write_mine(world: World, session: Session, word: str) -> None:
    """The agent writes a file of its own with its file tool."""
    blocks = "\n".join(UNFORMATTED.format(f"{word}_{n}") for n in range(7))
    world.agent(session, MINE, written(blocks.encode().split(b"\n"), author(session)), "write")


def command(text: str) -> Run:
    """One command, and the commit of what it did."""

    def run(world: World, code: Code) -> None:
        session, word = prepared(world, code)
        if MINE in text:
            write_mine(world, session, word)
            world.commit()
        world.run(session, text.format(word=word))
        world.learn_change(author(session))
        world.commit()

    return run


def patch_file(text: str) -> Run:
    """The agent writes a patch with its file tool, and applies it."""

    def run(world: World, code: Code) -> None:
        session, word = prepared(world, code)
        lines = PATCH.format(word=word).removesuffix("\n").encode().split(b"\n")
        world.agent(session, "change.patch", written(lines, author(session)), "write")
        known = set(world.known)
        world.run(session, text)
        # The patch is the agent's, and so are the lines that it adds.
        world.known = {key: lines for key, lines in world.known.items() if key in known and key[0] != "change.patch"}
        world.learn_change(author(session))
        world.commit()

    return run


def with_formatter(world: World) -> str:
    """The command that lays a file out anew."""
    (world.programs / "ruff").symlink_to(Path(sys.executable).with_name("ruff"))
    return f"ruff format -q --no-cache {MINE}"


def learn_layout(world: World, writers: Mapping[str, Author], spacer: Author | None = None) -> None:
    """Take a file that was only laid out anew: whoever wrote a word wrote its line, and the empty ones below it, unless
    they are the `spacer`'s.
    """
    lines: list[Line] = []
    last = next(iter(writers.values()))
    for text in (world.root / MINE).read_bytes().split(b"\n")[:-1]:
        last = next((who for word, who in writers.items() if word.encode() in text), last)
        lines.append(Line(text, last if text else spacer or last))
    if texts(lines) == texts(world.files[MINE]):
        raise BrokenScenario(f"nothing changed: {world.said.read_text()[:500]}")
    world.expect({**world.files, MINE: lines})


def formatted(*, committed: bool) -> Run:
    """The agent lays its own file out anew."""

    def run(world: World, code: Code) -> None:
        formatter = with_formatter(world)
        session, word = prepared(world, code)
        write_mine(world, session, word)
        if committed:
            world.commit()
        world.run(session, formatter)
        learn_layout(world, {word: author(session)})
        world.commit()

    return run


def formatted_by_person(world: World, code: Code) -> None:
    """A person lays the agent's file out anew."""
    formatter = with_formatter(world)
    session, word = prepared(world, code)
    write_mine(world, session, word)
    world.commit()
    subprocess.run(formatter.split(), cwd=world.root, env=world.environ, check=True)
    learn_layout(world, {word: author(session)}, PERSON)
    world.commit()


def formatted_for_person(*, mixed: bool, committed: bool) -> Run:
    """The agent lays a person's file out anew, in which it may have written every other block itself."""

    def run(world: World, code: Code) -> None:
        formatter = with_formatter(world)
        session, word = prepared(world, code)
        theirs = [UNFORMATTED.format(f"theirs_{n}").encode().split(b"\n") for n in range(7)]
        blocks = [written(block, PERSON) for block in theirs]
        world.person(MINE, [line for block in blocks for line in block])
        world.commit()
        if mixed:
            for n in range(7):
                own = UNFORMATTED.format(f"{word}_{n}").encode().split(b"\n")
                blocks.insert(2 * n + 1, written(own, author(session)))
                world.agent(session, MINE, [line for block in blocks for line in block], "edit")
            if committed:
                world.commit()
        world.run(session, formatter)
        learn_layout(world, {word: author(session), "theirs": PERSON})
        world.commit()

    return run


def left_behind(world: World, code: Code) -> None:
    """A process that goes on when its command has come back. Contained, it ends with the command."""
    session, word = prepared(world, code)
    contained = world.run(session, f"(sleep 1; echo 'late_{word} = compute_{word}(1)' >> {APP}) > /dev/null 2>&1 &")
    if not contained:
        world.wait_for(lambda: not world.is_written(APP, world.files[APP]))
        world.learn_change(author(session))
    world.commit()


def person_meanwhile(path: str) -> Run:
    """A person saves a file while a generator of the agent's runs."""

    def run(world: World, code: Code) -> None:
        session, _ = prepared(world, code)

        def save() -> None:
            if (world.root / "src/generated.py").exists():
                world.learn_change(author(session))
            world.person(path, [*world.files.get(path, []), *written([code.line(), code.line()], PERSON)])

        world.run(session, "python3 gen.py && meet", save)
        if "src/generated.py" not in world.files:
            world.learn_change(author(session))
        world.commit()

    return run


SHELL_MADE: dict[str, Run] = {
    **{name: command(text) for name, text in COMMANDS.items()},
    "git apply of the agent's patch": patch_file("git apply change.patch"),
    "patch of the agent's patch": patch_file("patch -s -p1 < change.patch"),
    "a formatter on the agent's file": formatted(committed=True),
    "a formatter on the agent's uncommitted file": formatted(committed=False),
    "a person's formatter on the agent's file": formatted_by_person,
    "a formatter on a person's file": formatted_for_person(mixed=False, committed=True),
    "a formatter on both writers' file": formatted_for_person(mixed=True, committed=True),
    "a formatter on both writers' uncommitted file": formatted_for_person(mixed=True, committed=False),
    "a process left behind": left_behind,
    "a person saves another file meanwhile": person_meanwhile(SECOND),
    "a person saves the same file meanwhile": person_meanwhile("src/generated.py"),
}
