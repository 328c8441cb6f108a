"""Texts made to keep the analysis of a command busy, or to fill the memory: each is bounded, and what is not read to
its end is unknown.
"""

import pytest

from policy.measures import calls_made, most_memory
from remit.policy.commands import analyse
from remit.policy.commands.analysis import MAX_BYTES

MAX_CALLS = 600_000
MAX_MEMORY_BYTES = 24 << 20

ROUNDS = " ".join(map(str, range(20)))


def loops(names: str, body: str) -> str:
    """Loops, one in the other, with 20 rounds each."""
    return "".join(f"for {name} in {ROUNDS}; do " for name in names) + body + "; done" * len(names)


DOUBLED_TEXTS = "a=xxxxxxxxxx; " + "a=$a$a; " * 40
HOSTILE = {
    "a value that doubles": f"{DOUBLED_TEXTS}touch src/$a",
    "a value that doubles where it never runs": f"if false; then {DOUBLED_TEXTS}touch src/$a; fi; ls",
    "a value that doubles in a loop": f"a=xxxx; {loops('ij', 'a=$a$a')}; touch src/$a",
    "a value that doubles in quotes": "a=xxxxxxxxxx; " + 'a="$a$a"; ' * 40 + 'touch "src/$a"',
    "a value that doubles as a pattern": "for a in '[*'*; do " + "a=$a$a; " * 30 + "touch src/$a; done",
    "a long value, often": "a=" + "x" * 4000 + "; touch " + "$a" * 1500,
    "loops of assignments": loops("ijklmn", "x=1"),
    "loops of words": loops("ij", "touch " + "y " * 1200),
    "loops in shells in loops": loops("ij", "bash -c '" + loops("kl", 'bash -c "' + loops("mn", "ls") + '"') + "'"),
    "braces": "touch {1..60}" + "{" + "," * 30_000 + "}",
    "braces with text": "touch {1..60}" + "x" * 10_000 + "{" + "," * 20_000 + "}",
    "braces of one": "touch {1..60}" + "{1..1}" * 9_000,
    "a folder that grows": "cd " + "a/" * 20_000 + "; touch x;" * 300,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_takes_long_or_much_memory(text: str) -> None:
    assert len(text) < MAX_BYTES
    assert calls_made(lambda: analyse.__wrapped__(text)) < MAX_CALLS  # past the cache
    assert most_memory(lambda: analyse.__wrapped__(text)) < MAX_MEMORY_BYTES
    assert analyse(text).outcome == "unknown"


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("a=src/x; touch $a/y", ["src/x/y"]),
        ("a=src; a=$a/x; a=$a/y; touch $a", ["src/x/y"]),
        ('a=; touch "src/x$a"', ["src/x"]),
        ("for i in 1 2; do for j in a b; do touch src/$i$j; done; done", ["src/1a", "src/1b", "src/2a", "src/2b"]),
        ("a=" + "x" * 1000 + "; touch src/$a", ["src/" + "x" * 1000]),
        ("bash -c 'for i in 1 2; do touch src/$i; done'", ["src/1", "src/2"]),
    ],
)
def test_what_is_usual_is_read_as_before(text: str, writes: list[str]) -> None:
    assert [write.path for write in analyse(text).writes or ()] == writes
