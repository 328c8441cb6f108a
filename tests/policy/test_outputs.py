"""The output files of commands: never a file that is only mentioned."""

import pytest

from remit.policy.commands.analysis import CommandOutput, find_outputs
from remit.policy.commands.parsed_command import parse_tree
from remit.policy.commands.words import UnprovedCommand

NAMED_OUTPUTS: list[tuple[str, dict[str, str]]] = [
    ("make > build.log", {"./build.log": "whole"}),
    ("cat /dev/null >> a.py", {"./a.py": "added"}),
    ("cd sub && sed -i 's/a/b/' x.py && pytest tests/t.py", {"./sub/x.py": "edited"}),
    ("perl -pi -e 's/a/b/' x.py; make", {"./x.py": "edited"}),
    ("cat > a.py <<'EOF'\nx > evil.py\nEOF\npython a.py; ls", {"./a.py": "whole"}),
    ("python - <<'E' > out.txt\nprint(1)\nE", {"./out.txt": "whole"}),
    ("cat > f <<'E' && make\nfoo\nE", {"./f": "whole"}),
    ("cp a b; make", {"./b": "whole"}),
    ("make | tee log.txt", {}),
    ("echo x | tee log.txt", {"./log.txt": "whole"}),
    ("python3 -c \"open('src/x.py','w').write('a')\"", {"./src/x.py": "whole"}),
    (
        "python3 - <<'EOF'\nfrom pathlib import Path\np = Path('x.py')\np.write_text(p.read_text())\nEOF",
        {"./x.py": "edited"},
    ),
    ("uv run python -c \"p='a.txt'; open(p, mode='w')\"", {"./a.txt": "whole"}),
    ("python3 - <<'E'\nwith open('src/x.py', 'a') as f:\n    f.write('a')\nE", {"./src/x.py": "added"}),
    ("python3 -c \"from pathlib import Path; Path('x.py').open('a').write('y')\"", {"./x.py": "added"}),
    ('node -e \'require("fs").appendFileSync("a.js", "x")\'', {"./a.js": "added"}),
    ('node -e \'require("fs").writeFileSync("a.js", "x")\'', {"./a.js": "whole"}),
    ("python gen.py --output src/g.py", {"./src/g.py": "whole"}),
    ("echo hi > out/é.txt; unknown", {"./out/é.txt": "whole"}),
    ("(cd x; echo a > b)", {"./x/b": "whole"}),
    ("make && echo x >> b.py", {"./b.py": "added"}),
    ("mv a.py b.py && sed -i s/a/b/ b.py", {"./b.py": "edited"}),
    ("git checkout other -- a.py && echo x > b.py", {"./b.py": "whole"}),
]

UNNAMED_OUTPUTS = [
    "pytest tests/test_x.py",
    "make src/app.py",
    "python gen.py src/app.py",
    "python -c \"print(open('src/app.py').read())\"",
    "python - <<'E'\nfor p in ['a', 'b']:\n    open(p, 'w')\nE",
    "touch src/app.py; rm -f src/app.py; chmod +x src/app.py; make",
    "echo x > $OUT; echo y > *.py",
    "cd $DIR; echo x > a.py",
    "cat > gen.py <<'EOF'\nopen('src/y.py', 'w')\nEOF\npython gen.py",
    'git commit -m \'see open("src/app.py", "w") > src/app.py\'',
    "echo 'unclosed",
    "x" * 270_000 + " > a.py",
]


@pytest.mark.parametrize(("command", "named"), NAMED_OUTPUTS, ids=[command[:40] for command, _ in NAMED_OUTPUTS])
def test_an_output_is_named(command: str, named: dict[str, str]) -> None:
    assert {output.path: output.how for output in find_outputs(command)} == named


@pytest.mark.parametrize("command", UNNAMED_OUTPUTS, ids=[command[:40] for command in UNNAMED_OUTPUTS])
def test_what_is_only_mentioned_is_no_output(command: str) -> None:
    found = {output.path: output.how for output in find_outputs(command)}
    assert not {path for path, how in found.items() if how != "added" and path.endswith(("app.py", "y.py", "a.py"))}


ROWS = "| a | b |\n" * 2000


def test_a_table_in_a_here_document_is_no_row_of_pipes() -> None:
    assert find_outputs(f"cat > a.md <<'E'\n{ROWS}E\nls | wc") == (CommandOutput("./a.md", "whole"),)


@pytest.mark.parametrize("mark", ["'EOT'", '"EOT"', "EOT"])
@pytest.mark.parametrize("program", ["cat > a.md", "tee a.md > /dev/null", "true && tee 'a.md' >/dev/null"])
def test_a_file_that_a_long_command_writes_is_named(program: str, mark: str) -> None:
    assert find_outputs(f"{program} <<{mark}\n{ROWS * 6}EOT\n") == (CommandOutput("./a.md", "whole"),)


@pytest.mark.parametrize(
    "text", ["a|" * 20_000, "[[ a" * 10_000, "a=(" * 9000, "<<a\n" * 9000, "cat <<X\n" + "a|" * 9000]
)
def test_what_keeps_the_parser_busy_at_its_end_is_not_parsed(text: str) -> None:
    """It goes back through all that was opened, for a time that grows with the square of it: 31 seconds for 60 kB."""
    with pytest.raises(UnprovedCommand, match="more than 2000 pipes"):
        parse_tree(text)
    assert find_outputs(text) == ()
