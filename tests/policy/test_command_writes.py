"""The written places of commands: a missing place is a defect, `unknown` never is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.test_command_reads import COMMANDS, READ_ONLY_ROWS, SHFMT, parts, text_of
from remit.policy.commands import analyse
from remit.policy.commands.parsed_command import mask_text, parse_tree, unmask_text
from remit.policy.commands.words import expand_braces, node_source

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
    ("split -l 5 a b", ("baa", "b*")),
    ("split a", ("xaa", "x*")),
    ("csplit a 1", ("xx00", "xx*")),
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
    ("gofmt -d a", ()),
    ("gofmt -w -d a", ("a",)),
    ("ruff check --no-fix --fix a", ("a",)),
    ("autoflake a", ("a",)),
    ("goimports -w a b", ("a", "b")),
    ("gofumpt -w a", ("a",)),
    ("pyupgrade --py311-plus a", ("a",)),
    ("autoflake -i --remove-all-unused-imports a", ("a",)),
    ("autoflake --check a", ()),
    ("docformatter --in-place -r a", ("a",)),
    ("stylua a", ("a",)),
    ("nixfmt --check a", ()),
    ("taplo fmt a", ("a",)),
    ("deno fmt --check a", ()),
    ("zig fmt a b", ("a", "b")),
    ("terraform fmt -recursive", (".",)),
    ("tofu fmt -check", ()),
    ("tidy -q -m a", ("a",)),
    ("jpegoptim -m80 --strip-all a", ("a",)),
    ("patchelf --set-rpath x a", ("a",)),
    ("patchelf --print-rpath a", ()),
    ("fallocate -l 1G a", ("a",)),
    ("htpasswd -cb a user secret", ("a",)),
    ("chattr -i a b", ("a", "b")),
    ("chattr -R +i a", ("a",)),
    ("setfattr -n user.x -v 1 a", ("a",)),
    ("install -d a b", ("a", "b")),
    ("install -dm755 a", ("a",)),
    # archives
    ("gunzip a.tgz", ("a.tgz", "a.tar", "a.tgz.gz")),
    ("unxz a.lzma", ("a.lzma", "a", "a.lzma.xz")),
    ("bunzip2 a", ("a", "a.bz2", "a.out")),
    ("pigz -p 4 a", ("a", "a.gz")),
    ("zstd -T0 -o b a", ("b", "a", "a.zst")),
    ("lz4 a b", ("a", "a.lz4", "b", "b.lz4")),
    ("brotli -o b a", ("b", "a", "a.br")),
    ("uncompress a.Z", ("a.Z", "a")),
    ("7z a a b", ("a.7z",)),
    ("7z a -tzip a.zip b", ("a.zip",)),
    ("7z x a.7z -ob -y", ("b",)),
    ("7z l a.7z", ()),
    ("unrar x a.rar b/", ("b/",)),
    ("cpio -o -F a", ("a",)),
    ("cpio -id --no-absolute-filenames", (".",)),
    ("ar rcs a.a b.o", ("a.a",)),
    ("ar x a.a", (".",)),
    ("ar t a.a", ()),
    ("jar cf a.jar -C b .", ("a.jar",)),
    ("jar xf a.jar", (".",)),
    # what is made out of others
    ("cc -c a/b.c", ("b.o",)),
    ("gcc -Wall -O2 -Isrc a.c -o b -lm", ("b",)),
    ("gcc src/*.c -o b", ("b",)),
    ("clang -fsyntax-only a.c", ()),
    ("strip -o a b", ("a", "b")),
    ("objcopy -O binary a b", ("b",)),
    ("ranlib a.a", ("a.a",)),
    ("openssl genrsa -out a 2048", ("a",)),
    ("openssl req -x509 -newkey rsa:2048 -nodes -keyout a -out b -subj /CN=x", ("b", "a")),
    ("openssl x509 -in a -noout -text", ()),
    ("ssh-keygen -t ed25519 -f a -N ''", ("a", "a.pub")),
    ("sqlite3 a 'create table t (x)'", ("a", "a-journal", "a-wal", "a-shm")),
    ("ffmpeg -y -i a.mov -c:v copy b.mp4", ("b.mp4",)),
    ("cwebp -q 80 a.png -o b.webp", ("b.webp",)),
    ("dot -Tsvg a.dot -o b.svg", ("b.svg",)),
    ("rsvg-convert -w 10 a.svg -o b.png", ("b.png",)),
    ("pandoc -s a.md -o b.html", ("b.html",)),
    ("pdftotext -layout a.pdf", ("a.txt",)),
    ("pdftotext a.pdf -", ()),
    ("xmllint --format a.xml --output b.xml", ("b.xml",)),
    ("msgfmt a.po -o b.mo", ("b.mo",)),
    ("xgettext -L Python -o a.pot b.py", ("a.pot",)),
    ("pg_dump -s -f a db", ("a",)),
    ("scp -p a b", ("b",)),
    ("docker cp box:/x/y a", ("a",)),
    # git
    ("git mv a b", ("a", "b")),
    ("git rm -r a", ("a",)),
    ("git restore -s HEAD a", ("a",)),
    ("git checkout HEAD -- a b", ("a", "b")),
    ("git clone https://example.org/x/a.git", ("a",)),
    ("git archive -o a HEAD", ("a",)),
    ("git diff --output=a", ("a",)),
    ("git init -q a", ("a",)),
    ("git worktree remove a", ("a",)),
    ("git merge-file a b c", ("a",)),
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
    ("cd ''; touch a", ("a",)),
    ("cd b; cd ''; touch a", ("b/a",)),
    ('a=; cd "$a"; touch b', ("b",)),
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
    "pushd ''; touch a",
    "mktemp -p ''",
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
    # index and names are state, which no text shows
    "git add a",
    "git add -A",
    "git rm --cached a",
    "git restore --staged a",
    "git restore -SW a",
    "git reset -q",
    "git checkout -b a",
    "git switch -c a",
    "git branch a",
    "git branch -d a",
    "git branch -m a b",
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
    "7z x a.7z @b",
    "7z a $x b",
    "unrar x a.rar b",
    "cpio -id",
    "cpio -o -F host:a",
    "ar @a",
    "jar xf a.jar -C b",
    "cc a.c",
    "cc a.o -o b",
    "cc -c a.h",
    "cc -x c -",
    "cc -c -x c-header a.c",
    "cc *.c -o b",
    "pdftotext -bbox a.pdf",
    "cc @a -o b",
    "cc -Wl,-Map=a b.c -o c",
    "cc -MD a.c -o b",
    "cc -c $x",
    "clang-format -i @a",
    "strip @a",
    "openssl req -new -subj /CN=x",
    "openssl enc -engine a",
    "ssh-keygen -t rsa",
    "ssh-keygen -D a -f b",
    "sqlite3 a '.shell touch b'",
    "sqlite3 a 'select 1'",
    "sqlite3 a \"insert into t values (writefile('b', 'c'))\"",
    "sqlite3 a \"attach 'b' as c; create table c.t (x)\"",
    "sqlite3 a < b",
    "ffmpeg -i a b_%03d.png",
    "ffmpeg -i a b.m3u8",
    "ffmpeg -i a -f tee b",
    "pandoc a.md -o b.pdf",
    "pandoc --filter a b.md -o c",
    "pandoc -t a.lua b.md",
    "terraform fmt -chdir=a",
    "terraform init",
    "taplo fmt",
    "deno fmt",
    "scp a host:b",
    "docker cp a box:/b",
    "docker run a",
    "chattr a b",
    "msgfmt a.po",
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
    "PATH=b touch a",
    "Set-Content a b",
    "Get-ChildItem | Remove-Item",
    "del /q a",
]


FOUND_BY_FUZZING = [
    ("case x in x) while f() { echo x > docs/fn.txt; }; f\ndo break; done\ntrue\n;; esac", "literal_writes"),
    ("cat <(case x in x) { chmod u+s src/a\n}\n;; esac\n)", "unknown"),
]


@pytest.mark.parametrize(("command", "outcome"), FOUND_BY_FUZZING)
def test_what_once_raised_or_hid_a_danger_is_answered(command: str, outcome: str) -> None:
    assert analyse(command).outcome == outcome


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
    assert analyse("git add a").reasons == ("what `git add` changes is not in its words",)


@pytest.mark.parametrize(
    ("command", "follows"), [("echo > a", True), ("rm a", False), ("sed -i 1d a", False), ("mv b a", False)]
)
def test_it_is_told_whether_a_link_is_followed(command: str, follows: bool) -> None:
    writes = analyse(command).writes or ()
    assert [write.follows_links for write in writes if write.path == "a"] == [follows]


@pytest.mark.parametrize("form", ["{{{}..3}}", "echo {{1..{}}}", "{{{}", "[ -{} a ]", "cat <<E\na $ {}${}\nE"])
@given(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]))
def test_no_character_ends_the_process(form: str, character: str) -> None:
    """The grammar's scanner, given them as they are, reads beyond its tables."""
    analyse(form.format(character, character))


@given(st.text())
def test_what_is_masked_for_the_grammar_comes_back(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode()
    assert unmask_text(mask_text(clean)) == clean
    assert all(character <= "\xff" for character in mask_text(clean))


def test_a_formatter_of_all_that_is_here_destroys_nothing() -> None:
    assert [analyse(command).outcome for command in ("black .", "ruff format", "chmod -R a-w .", "rm -rf .")] == [
        "literal_writes",
        "literal_writes",
        "dangerous",
        "dangerous",
    ]


def test_names_in_any_script_are_named() -> None:
    assert places("echo '✅' > 日本/é.txt; rm ü*; cp é ö") == ("日本/é.txt", "ü*", "ö")


@given(st.text("{},.ab1", max_size=14))
def test_braces_become_no_more_words_than_may_be(text: str) -> None:
    assert len(expand_braces(text)) <= 64


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
    pending, found = [parse_tree(mask_text(command))], list[str]()
    while pending:
        node = pending.pop()
        kinds = [child.type for child in node.children]
        if node.type == "file_redirect" and {">", ">>", "&>", "&>>", ">|"} & set(kinds):
            found.append(unmask_text(node_source(node.children[-1])))
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
    commands = [*(row.cmd for row in (*COMMANDS, *READ_ONLY_ROWS)), *(command for command, _ in WRITES)]
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


# The other oracle: the programs themselves.

REALLY = [
    "gzip a.c",
    "cp a.c b.tgz; gzip -c b.tgz > c.tgz; gunzip c.tgz",
    "bzip2 a.c",
    "bzip2 -c a.c > b; bunzip2 b",
    "xz -k a.c",
    "lzma a.c",
    "zstd -q a.c -o b",
    "cc -c sub/d.c",
    "cc -Wall a.c sub/d.c -o b",
    "cc -c a.c; ar rcs l.a a.o; ranlib l.a; ar x l.a",
    "cc -c a.c; strip a.o; objcopy -S a.o b.o",
    "openssl genrsa -out k 1024",
    "openssl req -x509 -newkey rsa:1024 -nodes -keyout k -out b -subj /CN=x",
    "openssl dgst -sha256 -out b a.c",
    "ssh-keygen -q -t ed25519 -f k -N ''",
    "sqlite3 d 'create table t (x); insert into t values (1)'",
    "install -d n/m o",
    "install -m 600 a.c n",
    "fallocate -l 100 f",
    "scp -q a.c b",
    "git init -q n",
    "git merge-file a.c a.c sub/d.c",
    "msgfmt -o b /dev/null",
    "xmllint --format x.xml --output b",
    "ffmpeg -y -loglevel quiet -i x.xml b.mp4",
    "split -l 1 a.c",
    "tar czf b.tgz sub",
    "dd if=a.c of=b status=none",
]


@pytest.mark.parametrize("command", REALLY)
def test_what_a_program_really_writes_is_among_what_was_named(command: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.c").write_text("int main(void) {\n  return 0;\n}\n")
    (tmp_path / "sub" / "d.c").write_text("int d(void) {\n  return 0;\n}\n")
    (tmp_path / "x.xml").write_text("<a><b/></a>")
    before = tree_of(tmp_path)
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    if done.returncode == 127 or b"not found" in done.stderr:
        pytest.skip("it is not installed")
    changed = {path for path, _ in tree_of(tmp_path).items() ^ before.items()}
    named = analyse(command).writes
    assert named is not None
    for path in changed:
        assert any(names_file(path, write.path, opens=write.adds_names or write.makes_folder) for write in named), (
            path,
            named,
        )


def tree_of(root: Path) -> dict[str, bytes]:
    """The files below, with their content."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def names_file(path: str, named: str, *, opens: bool) -> bool:
    """Whether a file is that place, or may come into it. The parts of `split` are told by the first."""
    return path == named or named == "xaa" or (opens and (named == "." or path.startswith(f"{named}/")))
