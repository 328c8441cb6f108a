"""Where a command writes, as its text tells it: a place that is missing is the one defect, `unknown` never is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.test_commands import COMMANDS, READ_ONLY, SHFMT, parts, text_of
from remit.policy.commands import analyse
from remit.policy.commands.patterns import expanded
from remit.policy.commands.syntax import masked, parse, unmasked
from remit.policy.commands.words import source

WRITES: list[tuple[str, tuple[str, ...]]] = [
    # redirects and here-documents
    ("echo x > a", ("a",)),
    ("2>>a ls", ("a",)),
    ("ls >|a 2>&1 </dev/null >/dev/null", ("a",)),
    ("cat <<'E' > a\n$(rm b)\nE", ("a",)),
    ("cat <<E >> a && touch b\n$(touch c)\nE", ("c", "a", "b")),
    ("cat <(touch a) > >(tee b)", ("b", "a")),
    # files and folders
    ("touch -d yesterday a b", ("a", "b")),
    ("mkdir -p a/b c", ("a/b", "c")),
    ("cp a b", ("b",)),
    ("cp -t d a", ("d",)),
    ("mv a b c", ("a", "b", "c")),
    ("ln -s a b", ("b",)),
    ("ln a b", ("a", "b")),
    ("install -m 644 a b", ("b",)),
    ("rm -rf -- a", ("a",)),
    ("chmod u+x a b", ("a", "b")),
    ("truncate -s 0 a", ("a",)),
    ("tee -a a b", ("a", "b")),
    ("dd if=a of=b bs=1", ("b",)),
    ("mktemp a.XXX", ("a.XXX",)),
    # outputs beside what is read
    ("sort -o a b", ("a",)),
    ("uniq a b", ("b",)),
    ("split -l 5 a b", ("baa",)),
    ("split a", ("xaa",)),
    ("csplit a 1", ("xx00",)),
    ("gzip a", ("a", "a.gz")),
    ("gunzip a.gz", ("a.gz", "a")),
    ("zip -r a b", ("a.zip",)),
    ("unzip a.zip -d b", ("b",)),
    ("tar czf a b", ("a",)),
    ("tar xf a -C b", ("b",)),
    ("tar xf a", (".",)),
    ("curl -sSo a https://example.org", ("a",)),
    ("curl -O 'https://example.org/x/a?b'", ("a",)),
    ("wget -P b https://example.org/a", ("b/a",)),
    ("rsync -a a/ b/", ("b/",)),
    # in place
    ("sed -i s/a/b/ c", ("c",)),
    ("sed -i.bak -e 1d c", ("c", "c.bak")),
    ("sed -i '' s/a/b/ c", ("c",)),
    ("sed -i '3a some text; w x' c", ("c",)),
    ("perl -pi -e 's/a$/b/' c", ("c",)),
    ("perl -i.orig -pe 'tr/a-z/A-Z/' c", ("c", "c.orig")),
    ("ruff format a", ("a",)),
    ("ruff format --check a", ()),
    ("gofmt -w a", ("a",)),
    # git
    ("git add -A", ()),
    ("git mv a b", ("a", "b")),
    ("git rm -r a", ("a",)),
    ("git rm --cached a", ()),
    ("git restore -s HEAD a", ("a",)),
    ("git restore --staged a", ()),
    ("git checkout HEAD -- a b", ("a", "b")),
    ("git checkout -b a", ()),
    ("git clone https://example.org/x/a.git", ("a",)),
    ("git archive -o a HEAD", ("a",)),
    ("git diff --output=a", ("a",)),
    ("git config user.name x", (".git/config",)),
    ("git config --global user.name x", ("~/.gitconfig",)),
    # folders, variables, words that become several
    ("cd a && touch b", ("a/b",)),
    ("cd a; (cd b; touch c); touch d", ("a/b/c", "a/d")),
    ("cd a || exit; touch b", ("a/b",)),
    ("cd a || touch b", ("b",)),
    ("pushd a; touch b; popd; touch c", ("a/b", "c")),
    ("cd a & touch b", ("b",)),
    ("cd /a/../b && touch c", ("/b/c",)),
    ("cd && touch a", ("~/a",)),
    ("touch ~/a $HOME/b '~/c'", ("~/a", "~/b", "./~/c")),
    ('touch "$PWD/a" $(pwd)/b ~+/c', ("a", "b", "c")),
    ("cd a; touch $PWD/b", ("a/b",)),
    ("f=ab; touch $f ${f}.c ${f%b}d", ("ab", "ab.c", "ad")),
    ("f=a/b.py; touch c/${f##*/} ${f%/*}/d", ("c/b.py", "a/d")),
    ("f=a; (f=b); touch $f", ("a",)),
    ("f=a; g() { f=b; }; g; touch $f", ("b",)),
    ("for f in a b; do touch $f; done", ("a", "b")),
    ("for f in a/*; do rm $f; done", ("a/*",)),
    ("touch {a,b}.c d{1..2}", ("a.c", "b.c", "d1", "d2")),
    ("rm a/*.b", ("a/*.b",)),
    # what runs other commands
    ("find a -name '*.b' -delete", ("a/**/*.b",)),
    ("find a -name b -exec cp {} c \\;", ("c",)),
    ("find a -type f -exec sed -i s/a/b/ {} +", ("a/**/*",)),
    ("grep -rl x a | xargs sed -i s/a/b/", ("a/**/*",)),
    ("echo a b | xargs rm", ("a", "b")),
    ("printf '%s\\n' a | xargs -I{} cp {} b/{}", ("b/a",)),
    ('find a | while read -r f; do rm "$f"; done', ("a/**/*",)),
    ("bash -euo pipefail -c 'cd a; touch b'", ("a/b",)),
    ("timeout 5 nice env LC_ALL=C sort -o a b", ("a",)),
    ("flock a touch b", ("a", "b")),
    ("f() { touch a; }; f", ("a",)),
    ("if touch a; then touch b; else touch c; fi", ("a", "b", "c")),
    ("while touch a; do touch b; done", ("a", "b")),
    ("case x in y) touch a;; *) touch b;; esac", ("a", "b")),
    ("! touch a | touch b &", ("a", "b")),
    ("x=$(touch a)", ("a",)),
    ("[[ -n $(touch a) ]]", ("a",)),
]

UNTOLD = [
    # names that the text does not hold
    "touch $x",
    'touch "$1"',
    "touch $(cat x)",
    "cat x | xargs rm",
    "{ echo a; echo b; } | xargs rm",
    "echo a | sed s/a/b/ | xargs rm",
    "echo a | xargs rm < b",
    "f=a; read f; touch $f",
    "f=a; if x=y; then f=b; fi; touch $f",
    "f=a; while true; do f=b; break; done; touch $f",
    "f=a; f+=b; touch $f",
    "a=(b); touch ${a[0]}",
    "path=a; touch b",
    "IFS=x; touch a",
    "touch ~x/a",
    "touch a?b{c,$d}",
    # folders that the text does not hold
    "cd $x; touch a",
    "cd -; touch a",
    "ls && cd a; touch b",
    "[ -d a ] && cd a; touch b",
    "for d in a b; do cd $d; done; touch c",
    "true | cd a; touch b",
    "popd; touch a",
    # links that the command makes itself
    "ln -s ../a b",
    "ln -s /a b",
    "ln -s a b; touch b/c",
    "mv a b; echo x > b",
    "cp -r a b; touch b/c",
    "tar xf a -C b; touch b/c",
    # what runs what the text does not show
    "eval touch a",
    "source a",
    "exec 3> a",
    "coproc touch a",
    "trap 'touch a' EXIT",
    "alias ls=touch",
    "ls() { touch a; }; time ls",
    "python3 a.py",
    "python3 -m pytest",
    "node -e 1",
    "make",
    "npm ci",
    "git commit -m x",
    "git pull",
    "git checkout a",
    "git switch -c a b",
    "git apply a",
    "git -c alias.x=y add a",
    "patch a",
    "prettier --write a",
    "sed -i 'w a' b",
    "sed -i 's/a/b/e' c",
    "sed -i -f a b",
    "perl -pi -e 's/a/`b`/e' c",
    "perl -pi -e 's/a/@{[`b`]}/' c",
    "perl -pie 's/a/b/' c",
    "gawk -i inplace 1 a",
    "tar xf a --to-command=b",
    "tar xPf a",
    "split --filter=x a",
    "find a -exec sh -c 'touch b' \\;",
    "find a -execdir touch b \\;",
    "xxd -ps a b",
    "uniq a -c",
    "curl -K a",
    "curl -d @a https://example.org",
    "wget -i a",
    "rsync a b:c",
    "cp -l a b",
    "cp * a",
    "touch /dev/fd/3",
    "touch /proc/self/cwd/a",
    "env -C a touch b",
    "FOO=b touch a",
    "Set-Content a b",
    "Get-ChildItem | Remove-Item",
    "del /q a",
]


def places(command: str) -> tuple[str, ...] | None:
    answer = analyse(command)
    return None if answer.writes is None else tuple(write.path for write in answer.writes)


@pytest.mark.parametrize(("command", "expected"), WRITES, ids=[command[:50] for command, _ in WRITES])
def test_what_a_command_writes_is_named(command: str, expected: tuple[str, ...]) -> None:
    assert (analyse(command).outcome, places(command)) == ("literal_writes", expected), analyse(command).reasons


@pytest.mark.parametrize("command", UNTOLD)
def test_what_the_text_does_not_tell_is_unknown_and_says_why(command: str) -> None:
    answer = analyse(command)
    assert (answer.outcome, answer.writes) == ("unknown", None), answer
    assert answer.reasons


def test_a_command_says_the_words_that_decided() -> None:
    assert analyse("ls > 'a b'").reasons == ("'a b' is written",)
    assert "make" in analyse("make").reasons[0]
    assert analyse("git add a").reasons == ("`git` writes to no file here",)


@pytest.mark.parametrize(
    ("command", "follows"), [("echo > a", True), ("rm a", False), ("sed -i 1d a", False), ("mv b a", False)]
)
def test_it_is_told_whether_a_link_is_followed(command: str, follows: bool) -> None:
    writes = analyse(command).writes or ()
    assert [write.follows for write in writes if write.path == "a"] == [follows]


@pytest.mark.parametrize("form", ["{{{}..3}}", "echo {{1..{}}}", "{{{}", "[ -{} a ]", "cat <<E\na $ {}${}\nE"])
@given(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
def test_no_character_ends_the_process(form: str, character: str) -> None:
    """The grammar's scanner, given them as they are, reads beyond its tables."""
    analyse(form.format(character, character))


@given(st.text())
def test_what_is_masked_for_the_grammar_comes_back(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode()
    assert unmasked(masked(clean)) == clean
    assert all(character <= "\xff" for character in masked(clean))


def test_names_in_any_script_are_named() -> None:
    assert places("echo '✅' > 日本/é.txt; rm ü*; cp é ö") == ("日本/é.txt", "ü*", "ö")


@given(st.text("{},.ab1", max_size=14))
def test_braces_become_no_more_words_than_may_be(text: str) -> None:
    assert len(expanded(text)) <= 64


@given(st.sampled_from([command for command, _ in WRITES if "\n" not in command]), st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_words_behind_a_command_take_away_no_place_that_it_writes(command: str, junk: str) -> None:
    """A word more may make it unknown; it never makes a place forgotten."""
    before, after = places(command), places(f"{command} ; {junk}")
    assert after is None or set(before or ()) <= set(after)


# The oracle: another parser, of another author, must see the same targets of redirects, and the same commands.


def seen_by_shfmt(command: str) -> Any:
    done = subprocess.run([SHFMT, "--to-json"], input=command.encode(), capture_output=True, check=False)
    return msgspec.json.decode(done.stdout) if done.returncode == 0 else None


def redirect_targets(command: str) -> list[str]:
    """The targets of redirects that write, literal ones, by tree-sitter."""
    pending, found = [parse(masked(command))], list[str]()
    while pending:
        node = pending.pop()
        kinds = [child.type for child in node.children]
        if node.type == "file_redirect" and {">", ">>", "&>", "&>>", ">|"} & set(kinds):
            found.append(unmasked(source(node.children[-1])))
        pending += node.children
    return sorted(target for target in found if target.replace("/", "").replace(".", "").isalnum())


def other_targets(tree: object) -> Iterator[str]:
    for part in parts(tree):
        for redirect in part.get("Redirs") or ():
            if redirect["Op"] in (">", ">>", "&>", "&>>", ">|"):
                yield text_of(redirect["Word"])


@pytest.mark.skipif(not Path(SHFMT).exists(), reason="shfmt-py is not installed")
def test_another_parser_sees_the_same_targets_of_redirects() -> None:
    seen = 0
    commands = [*(row.cmd for row in (*COMMANDS, *READ_ONLY)), *(command for command, _ in WRITES)]
    for command in commands:
        if analyse(command).writes is None or "[ " in command:
            continue
        tree = seen_by_shfmt(command)
        assert tree is not None, command
        theirs = sorted(t for t in other_targets(tree) if t.replace("/", "").replace(".", "").isalnum())
        assert redirect_targets(command) == theirs, command
        seen += len(theirs)
    print(f"{seen} targets of redirects", file=sys.stderr)
    assert seen > 20
