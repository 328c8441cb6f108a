"""V4A patches: which files they name; and the shell commands that apply them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.formats import FileOperation, Patch, PatchError, PatchHunk, parse_patch
from remit.core.shell_commands import find_shell_patches

WHOLE = """\
*** Begin Patch
*** Add File: docs/new file.md
+# New
+
*** Update File: src/app.py
*** Move to: src/main.py
@@ def main():
 def main():
-    return 1
+    return 2

@@
+# end
*** End of File
*** Delete File: old.txt
*** End Patch"""


def test_every_kind_of_operation_is_read() -> None:
    assert parse_patch(WHOLE) == Patch(
        (
            FileOperation("add", "docs/new file.md", hunks=(PatchHunk(("+# New", "+")),)),
            FileOperation(
                "update",
                "src/app.py",
                "src/main.py",
                (
                    PatchHunk((" def main():", "-    return 1", "+    return 2", " "), "def main():"),
                    PatchHunk(("+# end",), "", end_of_file=True),
                ),
            ),
            FileOperation("delete", "old.txt"),
        )
    )


def test_every_file_is_named_once_targets_of_moves_too() -> None:
    assert parse_patch(WHOLE).paths == ("docs/new file.md", "src/app.py", "src/main.py", "old.txt")


def test_a_tilde_is_a_name() -> None:
    assert parse_patch(wrap("*** Delete File: ~/a")).paths == ("./~/a",)


def wrap(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


@pytest.mark.parametrize(
    "text",
    [
        "\n  " + wrap("*** Delete File: a") + "\n\n",
        wrap("*** Delete File: a").replace("\n", "\r\n"),
        "  *** Begin Patch  \n  *** Delete File: a  \n  *** End Patch",
        "<<EOF\n" + wrap("*** Delete File: a") + "\nEOF\n",
        "<<'EOF'\n" + wrap("*** Delete File: a") + "\nEOF",
        '<<"EOF"\n' + wrap("*** Delete File: a") + "\nEOF\n",
    ],
)
def test_what_the_client_forgives_is_forgiven(text: str) -> None:
    assert parse_patch(text).paths == ("a",)


def test_the_first_hunk_may_do_without_its_mark() -> None:
    patch = parse_patch(wrap("*** Update File: a", " one", "-two"))
    assert patch.operations[0].hunks == (PatchHunk((" one", "-two")),)


@pytest.mark.parametrize("line", ["*** Add File: evil", " *** Add File: evil"])
def test_an_added_line_is_content_and_a_header_after_it_is_a_header(line: str) -> None:
    text = wrap("*** Add File: a", "+*** Delete File: b", line, "+x")
    assert parse_patch(text).paths == ("a", "evil")


def test_only_updates_in_place_check_themselves() -> None:
    update = ("*** Update File: a", "@@", "-x", "+y")
    assert parse_patch(wrap(*update)).checks_itself
    assert not parse_patch(wrap(*update, "*** Delete File: b")).checks_itself
    assert not parse_patch(wrap(update[0], "*** Move to: b", *update[1:])).checks_itself


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("*** Begin Patch", 1),
        (wrap(), 0),
        ("*** Begin Patch\n*** Delete File: a", 2),
        ("*** Delete File: a\n*** End Patch", 1),
        (wrap("*** Delete File: "), 2),
        (wrap("*** Delete File:  a"), 2),
        (wrap("*** Rename File: a"), 2),
        (wrap("*** Delete File: a", "", "*** Delete File: b"), 3),
        (wrap("*** Update File: a"), 2),
        (wrap("*** Update File: a", "@@"), 4),
        (wrap("*** Update File: a", "*** Move to: b "), 3),
        (wrap("*** Update File: a", "@@", " x", " *** Delete File: b"), 5),
        (wrap("*** Update File: a", "@@", " x", "x"), 5),
        (wrap("*** Add File: a\0b"), 2),
        (wrap("*** Delete File: a", "*** End Patch", "*** Delete File: b"), 3),
    ],
)
def test_what_is_not_sure_is_an_error_at_its_line(text: str, line: int) -> None:
    with pytest.raises(PatchError, match="cannot be read") as caught:
        parse_patch(text)
    if line and "changes nothing" not in caught.value.why:
        assert caught.value.line == line


@given(st.text() | st.lists(st.sampled_from(WHOLE.split("\n")) | st.text(max_size=8)).map("\n".join))
def test_any_text_is_a_patch_or_a_patch_error(text: str) -> None:
    with suppress(PatchError):
        assert parse_patch(text).operations


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1).filter(lambda s: s == s.strip())
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
LINES = st.tuples(st.sampled_from("+-"), TEXTS).map("".join) | TEXTS.map(lambda s: " x" + s)
HUNKS = st.builds(
    PatchHunk,
    lines=st.lists(LINES, min_size=1, max_size=4).map(tuple),
    context=TEXTS,
    end_of_file=st.booleans(),
)
ADDED = st.builds(PatchHunk, lines=st.lists(TEXTS.map(lambda s: "+" + s), min_size=1, max_size=3).map(tuple))
OPERATIONS = st.one_of(
    st.builds(FileOperation, st.just("add"), NAMES, hunks=st.tuples(ADDED)),
    st.builds(FileOperation, st.just("delete"), NAMES),
    st.builds(
        FileOperation,
        st.just("update"),
        NAMES,
        moved_to=st.none() | NAMES,
        hunks=st.lists(HUNKS, min_size=1, max_size=3).map(tuple),
    ),
)


def written(patch: Patch) -> str:
    lines: list[str] = []
    for each in patch.operations:
        lines.append(f"*** {each.kind.title()} File: {each.path}")
        lines += [f"*** Move to: {each.moved_to}"] if each.moved_to else []
        for hunk in each.hunks:
            lines += [] if hunk.context is None else [f"@@ {hunk.context}" if hunk.context else "@@"]
            lines += [*hunk.lines, *(["*** End of File"] if hunk.end_of_file else [])]
    return wrap(*lines)


@given(st.lists(OPERATIONS, min_size=1, max_size=4).map(lambda o: Patch(tuple(o))))
def test_a_patch_that_was_written_is_read_back(patch: Patch) -> None:
    assert parse_patch(written(patch)) == patch


BODY = wrap("*** Add File: a.txt", "+don't $(touch x)")


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        (f"apply_patch <<'EOF'\n{BODY}\nEOF", ["a.txt"]),
        (f'applypatch <<"EOF"\n{BODY}\nEOF\n', ["a.txt"]),
        (f"apply_patch <<\\PATCH\n{BODY}\nPATCH", ["a.txt"]),
        (f"cd sub && apply_patch <<'EOF'\n{BODY}\nEOF", ["sub/a.txt"]),
        (f"cd 'my sub' && apply_patch <<'EOF'\n{BODY}\nEOF", ["my sub/a.txt"]),
        (f"cd /etc && cd x && apply_patch <<'EOF'\n{BODY}\nEOF", ["/etc/x/a.txt"]),
        (f"echo hi; cd sub && apply_patch <<'EOF' && echo done\n{BODY}\nEOF\nls", ["sub/a.txt"]),
        (f"apply_patch <<'EOF'\n{BODY}\nEOF\napply_patch <<'E'\n{BODY.replace('a.txt', 'b')}\nE", ["a.txt", "b"]),
        (f"if true; then apply_patch <<'EOF'\n{BODY}\nEOF\nfi", ["a.txt"]),
        (f"/usr/bin/apply_patch '{wrap('*** Delete File: a')}'", ["a"]),
        (f"cd $X; apply_patch <<'EOF'\n{BODY.replace('a.txt', '/w/a.txt')}\nEOF", ["/w/a.txt"]),
        (f"apply_patch <<EOF\n{wrap('*** Delete File: a')}\nEOF", ["a"]),
        (f"echo $(apply_patch <<'EOF'\n{BODY}\nEOF\n)", ["a.txt"]),
        ("grep -rn apply_patch src", []),
        ("git commit -m 'apply_patch <<EOF'", []),
        ("cat <<'EOF' > notes.md\napply_patch\nEOF", []),
        ("ls", []),
    ],
)
def test_patches_in_a_command_are_found_in_their_folder(command: str, paths: list[str]) -> None:
    assert [path for patch in find_shell_patches(command) for path in patch.paths] == paths


@pytest.mark.parametrize(
    "command",
    [
        "apply_patch < patch.txt",
        "cat patch.txt | apply_patch",
        "apply_patch",
        'apply_patch "$PATCH"',
        f"apply_patch <<EOF\n{BODY}\nEOF",
        f"apply_patch <<'EOF'\n{BODY}",
        "apply_patch <<'EOF'\nnot a patch\nEOF",
        f"cd $X && apply_patch <<'EOF'\n{BODY}\nEOF",
        f"cd - && apply_patch <<'EOF'\n{BODY}\nEOF",
        f"cd && apply_patch <<'EOF'\n{BODY}\nEOF",
        f"cd ~/x && apply_patch <<'EOF'\n{BODY}\nEOF",
        f"cd my\\ sub && apply_patch <<'EOF'\n{BODY}\nEOF",
        f"cd sub; apply_patch <<'EOF'\n{BODY}\nEOF",
        f"cd sub || apply_patch <<'EOF'\n{BODY}\nEOF",
        f"(cd sub && ls); apply_patch <<'EOF'\n{BODY}\nEOF",
        f"pushd sub && apply_patch <<'EOF'\n{BODY}\nEOF",
        f"cd a && ls | apply_patch <<'EOF'\n{BODY}\nEOF",
        f"bash <<'EOF'\napply_patch <<'E'\n{BODY}\nE\nEOF",
        "bash -c 'apply_patch < x'",
        "env apply_patch < x",
        "xargs apply_patch",
        "apply_patch 'not closed",
    ],
)
def test_a_patch_that_the_text_does_not_show_is_an_error(command: str) -> None:
    with pytest.raises(PatchError):
        find_shell_patches(command)


SHELL = st.sampled_from(
    [
        "apply_patch",
        " ",
        "\n",
        "<<EOF",
        "<<'EOF'",
        "EOF",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "\\",
        "cd x",
        "&&",
        "((",
        "${",
        "#",
        ";",
    ]
)


@given(st.text() | st.lists(SHELL | st.text(max_size=3), max_size=20).map(lambda p: "apply_patch " + "".join(p)))
def test_any_command_is_read_or_is_a_patch_error(command: str) -> None:
    with suppress(PatchError):
        assert all(patch.paths for patch in find_shell_patches(command))
