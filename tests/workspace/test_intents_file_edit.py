"""Changing the intents file: what was asked, and not one byte more."""

import difflib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from ruamel.yaml import YAML

from remit.core.diff.contents import sha256
from remit.core.intent import PRIORITIES, STATUSES, Constraint, Criterion, Intent
from remit.core.intents.validation import describe_constraint
from remit.workspace.intents_file.edit import FieldValue, add_intent, remove_intent, set_fields
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.intents_file.storage import EditRefused, IntentsFileChanged, write_intents

NOW = "2026-03-01T12:00:00Z"

ODD = """\
# Who may do what
version:   '1.0'   # do not touch

active_intents:
    -   id: INT-001     # the first
        "owned_scope": [ "src/**",tests/** ]
        description: >
            folded
            text

        status:  'IN_PROGRESS'   # since Monday
        # what must hold
        constraints:
        -   Keep it small
        - {type: max_lines,   max: 0500x, paths: [a,b]}
    # about the second

    -   owned_scope:
            - docs/**   # pages
            - 'a b/**'

        id:  INT-002
        description: |+
          kept

        x-team: {colour: red}
# the end
metadata: { by:   hand }
""".replace("max_lines,   max: 0500x", "forbid_import,   module: 0500x")

MAPPED = """\
active_intents:
  INT-001:
    owned_scope: [a]
  INT-002:   # second
      status: DRAFT
      owned_scope:
      - b
"""

JSON = '{"version": "1.0", "active_intents": [{"id": "INT-001", "owned_scope": ["a"], "status": "DRAFT"}]}\n'


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that went, and the lines that came."""
    diff = list(difflib.ndiff(before.splitlines(keepends=True), after.splitlines(keepends=True)))
    return [d[2:] for d in diff if d[0] == "-"], [d[2:] for d in diff if d[0] == "+"]


def read(text: str) -> dict[str, Intent]:
    return {i.id: i for i in parse_intents(text.encode()).intents}


# -- one field


SETTINGS: list[tuple[str, str, Mapping[str, FieldValue], list[str], list[str]]] = [
    (
        "a value in quotes keeps its quotes and its comment",
        "INT-001",
        {"status": "BLOCKED"},
        ["        status:  'IN_PROGRESS'   # since Monday\n"],
        ["        status:  'BLOCKED'   # since Monday\n"],
    ),
    (
        "a pattern joins a list in brackets",
        "INT-001",
        {"owned_scope": ("src/**", "tests/**", "!src/{a,b}/**")},
        ['        "owned_scope": [ "src/**",tests/** ]\n'],
        ['        "owned_scope": [ "src/**",tests/**, "!src/{a,b}/**" ]\n'],
    ),
    (
        "a pattern joins a list of lines",
        "INT-002",
        {"owned_scope": ("docs/**", "a b/**", "*.md")},
        [],
        ['            - "*.md"\n'],
    ),
    (
        "a list of lines is replaced",
        "INT-002",
        {"owned_scope": ("new/**", "newer/**")},
        ["            - docs/**   # pages\n", "            - 'a b/**'\n"],
        ["            - new/**\n", "            - newer/**\n"],
    ),
    (
        "a new field goes last",
        "INT-001",
        {"blocked_reason": "waits: for #2"},
        [],
        ['        blocked_reason: "waits: for #2"\n'],
    ),
    (
        "a block of text is replaced by another",
        "INT-002",
        {"description": "one\n\n  two # three\n".replace("  ", "")},
        ["        description: |+\n", "          kept\n"],
        ["        description: |\n", "          one\n", "          two # three\n"],
    ),
    (
        "a block of text becomes a line",
        "INT-001",
        {"description": "short"},
        ["        description: >\n", "            folded\n", "            text\n"],
        ["        description: short\n"],
    ),
    ("None puts back the default", "INT-001", {"status": None}, ["        status:  'IN_PROGRESS'   # since Monday\n"],
     ["        status:  null   # since Monday\n"]),
    ("a rule joins the rules", "INT-001",
     {"constraints": (Constraint("Keep it small"),
                      Constraint('forbid_import: module="0500x", paths=["a", "b"]', "forbid_import",
                                 {"module": "0500x", "paths": ["a", "b"]}),
                      Constraint("Say why", "max_files", {"max": 3}))},
     [], ["        - {type: max_files, max: 3, text: Say why}\n"]),
]  # fmt: skip


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("row", SETTINGS, ids=[row[0] for row in SETTINGS])
def test_a_field_is_set_and_all_else_stays(
    row: tuple[str, str, Mapping[str, FieldValue], list[str], list[str]], newline: str
) -> None:
    _, intent_id, changes, gone, come = row
    text = ODD.replace("\n", newline)
    stamped = set_fields(text, intent_id, {}, now="2026-01-01T00:00:00Z")
    after = set_fields(stamped, intent_id, changes, now="2026-01-01T00:00:00Z")
    went, came = changed(stamped, after)
    assert [line.replace("\r\n", "\n") for line in went if line.strip()] == gone
    assert [line.replace("\r\n", "\n") for line in came if line.strip()] == come
    assert after.count("\n") == after.count(newline)
    expected = {k: getattr(Intent("", ()), k) if v is None else v for k, v in changes.items()}
    assert read(after)[intent_id] == replace(read(stamped)[intent_id], **expected)


def test_what_remit_writes_sets_updated_at() -> None:
    went, came = changed(ODD, set_fields(ODD, "INT-002", {}, now=NOW))
    assert (went, came) == ([], [f"        updated_at: {NOW}\n"])
    assert read(add_intent("", Intent("INT-001", ("a",)), now=NOW))["INT-001"].updated_at == NOW


def test_setting_what_is_set_changes_nothing() -> None:
    once = set_fields(ODD, "INT-001", {"status": "IN_PROGRESS"}, now=NOW)
    assert set_fields(once, "INT-001", {"status": "IN_PROGRESS"}, now=NOW) == once


def test_the_mapping_form_is_edited_in_place() -> None:
    after = set_fields(MAPPED, "INT-002", {"status": "IN_PROGRESS", "owned_scope": ("b", "c")}, now=NOW)
    assert changed(MAPPED, after) == (
        ["      status: DRAFT\n"],
        ["      status: IN_PROGRESS\n", "      - c\n", f"      updated_at: {NOW}\n"],
    )
    added = add_intent(MAPPED, Intent("INT-003", ("c",)), now=NOW)
    assert added.startswith(MAPPED + "  INT-003:\n      owned_scope:\n        - c\n")
    assert remove_intent(added, "INT-003") == MAPPED


def test_a_json_file_stays_json() -> None:
    text = set_fields(JSON, "INT-001", {"status": "IN_PROGRESS", "owner": "yes: no"}, now=NOW)
    text = add_intent(text, Intent("INT-002", ("b",), constraints=(Constraint("é"),)), now=NOW)
    assert json.loads(text)["active_intents"][1]["constraints"] == ["é"]
    assert list(read(remove_intent(text, "INT-001"))) == ["INT-002"]
    empty = remove_intent(remove_intent(text, "INT-002"), "INT-001")
    assert json.loads(empty)["active_intents"] == []


def test_in_a_thousand_intents_exactly_the_expected_lines_change() -> None:
    text = "version: '1.0'\nactive_intents:\n" + "".join(
        f"  # number {n}\n  - id: INT-{n:03d}  # é\n    owned_scope: ['src/{n}/**']\n    status: DRAFT # new\n"
        f"    updated_at: 2026-01-01T00:00:00Z\n\n"
        for n in range(1, 1001)
    )
    after = set_fields(text, "INT-500", {"status": "IN_PROGRESS"}, now=NOW)
    lines, now = text.splitlines(), after.splitlines()
    differing = [(n, old, new) for n, (old, new) in enumerate(zip(lines, now, strict=True)) if old != new]
    first = 2 + 499 * 6
    assert differing == [
        (first + 3, "    status: DRAFT # new", "    status: IN_PROGRESS # new"),
        (first + 4, "    updated_at: 2026-01-01T00:00:00Z", f"    updated_at: {NOW}"),
    ]


# -- adding and removing


def test_an_empty_text_becomes_a_whole_file() -> None:
    intent = Intent("INT-001", ("src/**", "!src/old/**"), name="A thing", constraints=(Constraint("Be kind"),))
    assert add_intent("", intent, now=NOW) == (
        'version: "1.0"\nactive_intents:\n  - id: INT-001\n    owned_scope:\n      - src/**\n      - "!src/old/**"\n'
        "    name: A thing\n    status: DRAFT\n    priority: MEDIUM\n    constraints:\n      - Be kind\n"
        f"    created_at: {NOW}\n    updated_at: {NOW}\nmetadata: {{}}\n"
    )


STARTS = [
    "",
    "# a note",
    "\ufeff# a note\r\n",
    "active_intents:\nmetadata: {}\n",
    "active_intents: []  # none\n# end\n",
    "active_intents: {}\n",
    "active_intents: ~",
    "active_intents: [\n]\n",
    "metadata: {}",
    "metadata:\n  a: |\n    b",
    "{}",
    "{version: '1.0', active_intents: }",
    "---\nactive_intents:\n...\n",
    ODD,
    MAPPED,
    JSON,
    "active_intents:\n- id: INT-001\n  owned_scope: [a]\n\n\n",
    "active_intents:\n  -\n    id: INT-001\n    owned_scope: [a]",
    "active_intents:\n  - {id: INT-001, owned_scope: [a]} # c\n    # d\n  # e\n",
    "active_intents:\n  - id: INT-001\n    owned_scope:\n      - a\n    description: |+\n      x\n\n\n# end\n",
    "active_intents: {INT-001: {owned_scope: [a]}}\n",
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("start", STARTS)
def test_an_added_intent_is_read_back_and_taken_out_again(start: str, newline: str) -> None:
    text = start.replace("\r\n", "\n").replace("\n", newline)
    before = read(text)
    intent = Intent("INT-900", ("src/**", "no"), name="yes", created_at=NOW, updated_at=NOW)
    after = add_intent(text, intent, now=NOW)
    assert read(after) == {**before, "INT-900": intent}
    comments = [line for line in text.splitlines() if "#" in line]
    assert all(any(line[line.index("#") :] in new for new in after.splitlines()) for line in comments)
    assert read(remove_intent(after, "INT-900")) == before
    if "\n" in text:
        assert after.count("\n") == after.count(newline)


def test_an_added_intent_follows_the_comments_of_the_one_before() -> None:
    text = "active_intents:\n  - id: INT-001\n    owned_scope: [a]\n    # of the first\n\n# of the file\n"
    head, tail = text[: text.index("\n# of the file")], "\n# of the file\n"
    after = add_intent(text, Intent("INT-002", ("b",)), now=NOW)
    assert after.startswith(head + "  - id: INT-002\n")
    assert after.endswith(f"    updated_at: {NOW}\n" + tail)


def test_a_removed_intent_takes_its_lines_and_no_others() -> None:
    went, came = changed(ODD, remove_intent(ODD, "INT-001"))
    first = ODD.index("    -   id: INT-001")
    assert "".join(went) == ODD[first : ODD.index("    # about the second")]
    assert came == []


# -- refusals


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        ("a: [", {}, "line 2"),
        ("- a\n", {}, "no mapping"),
        (ODD, {"status": "DOING"}, "INVALID_STATUS"),
        (ODD, {"dependencies": ("INT-404",)}, "INVALID_DEPENDENCY"),
        (ODD, {"owned_scope": ()}, "EMPTY_SCOPE"),
        (ODD, {"name": "\ud800"}, "UTF-8"),
        (ODD, {"constraints": (Constraint("free text has no options", None, {"max": 1}),)}, "read back"),
        (ODD, {"id": "INT-009"}, "no field"),
        (ODD, {"colour": "red"}, "no field"),
        (ODD.replace("INT-002", "INT-001"), {}, "2 times"),
        (MAPPED.replace("INT-001", "INT-007"), {}, "0 times"),
        ("x: &a {id: INT-001, owned_scope: [a]}\nactive_intents: [*a]\n", {}, "by hand"),
        ("active_intents:\n  - id: INT-001\n    owned_scope: &a [a]\n    references: *a\n",
         {"owned_scope": ("b",)}, "anchor"),
    ],
)  # fmt: skip
def test_what_would_do_harm_is_refused(text: str, changes: Mapping[str, FieldValue], words: str) -> None:
    with pytest.raises(EditRefused, match=words):
        set_fields(text, "INT-001", changes, now=NOW)


def test_an_intent_that_others_need_is_not_removed() -> None:
    text = set_fields(ODD, "INT-002", {"dependencies": ("INT-001",)}, now=NOW)
    with pytest.raises(EditRefused, match="INVALID_DEPENDENCY"):
        remove_intent(text, "INT-001")


def test_an_id_in_use_or_out_of_shape_is_not_added() -> None:
    with pytest.raises(EditRefused, match="INT-001 exists"):
        add_intent(ODD, Intent("INT-001", ("a",)), now=NOW)
    with pytest.raises(EditRefused, match="'int-1' is not"):
        add_intent(ODD, Intent("int-1", ("a",)), now=NOW)


def test_a_broken_intent_can_be_mended() -> None:
    broken = ODD.replace("'IN_PROGRESS'", "'DOING'")
    assert "INT-001" not in read(broken)
    mended = set_fields(broken, "INT-001", {"status": "BLOCKED"}, now=NOW)
    assert read(mended)["INT-001"].status == "BLOCKED"


# -- any intents at all

NASTY = st.sampled_from(
    [
        *("yes", "NO", "null", "~", "1:30", "0o7", "1e3", "1_000", ".5", "- a", "a: b", "a #b", "#", '"', "'", "\\"),
        *("{a}", "[a]", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "?", ":", "é", "😀", "a\nb", "a\n\nb\n", "\n"),
        *(" a ", "a\tb", "\x85", "\u2028", "\ufeff", "a\r\nb", "---", "...", "a,b", "<<", "=", "2026-01-01", "\x7f"),
        *("a\n b\n", "\x00", "", "a\n\n\n", "\na", "a \nb", "a\n \nb"),
    ]
)
TEXTS = NASTY | st.text(max_size=30)
SPEAKING = TEXTS.filter(bool)


def rule(kind: str, options: dict[str, object]) -> Constraint:
    return Constraint(describe_constraint(kind, options), kind, options)


NAMES = TEXTS.filter(str.strip)
RULES = (
    (NAMES | st.lists(NAMES, min_size=1, max_size=2)).map(lambda found: rule("forbid_import", {"module": found}))
    | NAMES.map(lambda name: rule("dependency", {"name": name, "forbid": True}))
    | st.integers(0, 10**17).map(lambda most: rule("max_files", {"max": most}))
    | st.just(rule("require_test_change", {}))
)
PATTERNS = st.sampled_from(["src/**", "no", "a b/*.py", "!src/old/**", "*.md", "{a,b}/x", "[ab]", "é/😀", "#x", "a: b"])


@st.composite
def intents(draw: st.DrawFn, intent_id: str = "INT-002") -> Intent:
    return Intent(
        id=intent_id,
        owned_scope=("first", *draw(st.lists(PATTERNS, max_size=3))),
        name=draw(TEXTS),
        description=draw(TEXTS | st.text("ab \n#", max_size=40)),
        status=draw(st.sampled_from(STATUSES)),
        priority=draw(st.sampled_from(PRIORITIES)),
        owner=draw(TEXTS),
        constraints=tuple(draw(st.lists(st.builds(Constraint, TEXTS) | RULES, max_size=3))),
        acceptance_criteria=tuple(draw(st.lists(st.builds(Criterion, TEXTS, st.none() | TEXTS), max_size=3))),
        companions=draw(st.booleans()),
        network=draw(st.sampled_from(["allow", "none"])),
        dependencies=draw(st.sampled_from([(), ("INT-001",)])),
        references=tuple(draw(st.lists(TEXTS, max_size=3))),
        blocked_reason=draw(st.none() | TEXTS),
        created_at=NOW,
        updated_at=NOW,
    )


ONE = 'active_intents:\n- id: INT-001\n  owned_scope: ["a"]\n'
OTHERS = [text.replace("INT-002", "INT-009") for text in (MAPPED, ODD, ODD.replace("\n", "\r\n"))]
ANY_START = st.sampled_from(["", ONE, ONE.replace("\n", "\r\n"), JSON, *OTHERS])


@settings(max_examples=250, deadline=None)
@given(ANY_START, intents())
def test_any_intent_that_is_added_is_read_back(start: str, intent: Intent) -> None:
    intent = replace(intent, dependencies=intent.dependencies if start else ())
    assert read(add_intent(start, intent, now=NOW)) == {**read(start), intent.id: intent}


@settings(max_examples=250, deadline=None)
@given(ANY_START.filter(bool), intents("INT-001"))
def test_any_fields_that_are_set_are_read_back_and_others_stay(start: str, intent: Intent) -> None:
    skipped = ("id", "dependencies", "created_at", "updated_at")
    changes = {name: getattr(intent, name) for name in Intent.__struct_fields__ if name not in skipped}
    before = read(start)
    after = set_fields(start, "INT-001", changes, now=NOW)
    assert read(after) == {**before, "INT-001": replace(before["INT-001"], **changes, updated_at=NOW)}


@settings(max_examples=100, deadline=None)
@given(SPEAKING)
def test_other_readers_of_yaml_see_the_same_text(name: str) -> None:
    text = add_intent("", Intent("INT-001", ("a",), name=name, description=name), now=NOW)
    for document in (yaml.safe_load(text), YAML(typ="safe", pure=True).load(text)):
        (entry,) = document["active_intents"]
        assert (entry["name"], entry["description"]) == (name, name)


# -- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "active_intents.yaml"


def test_a_file_is_written_when_it_is_the_one_that_was_edited(path: Path, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    first = write_intents(path, ODD, expected_sha256=None, lock=lock)
    path.chmod(0o640)
    second = write_intents(path, MAPPED, expected_sha256=first, lock=lock)
    assert path.read_bytes() == MAPPED.encode()
    assert second == sha256(MAPPED.encode())
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["active_intents.yaml", "lock"]


@pytest.mark.parametrize("expected", [None, "0" * 64])
def test_a_file_that_changed_meanwhile_is_left_alone(path: Path, tmp_path: Path, expected: str | None) -> None:
    path.write_text("# somebody was here\n")
    with pytest.raises(IntentsFileChanged, match="read it again"):
        write_intents(path, ODD, expected_sha256=expected, lock=tmp_path / "lock")
    assert path.read_text() == "# somebody was here\n"


def test_a_file_that_is_gone_is_not_made_again(path: Path, tmp_path: Path) -> None:
    with pytest.raises(IntentsFileChanged, match="found absent"):
        write_intents(path, ODD, expected_sha256="0" * 64, lock=tmp_path / "lock")


def test_a_link_is_not_written_through(path: Path, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    path.symlink_to("real")
    with pytest.raises(OSError, match="symbolic link"):
        write_intents(path, ODD, expected_sha256=sha256(b""), lock=tmp_path / "lock")
    assert (tmp_path / "real").read_text() == ""


def add_many(path: Path, lock: Path, first: int, count: int) -> None:
    """Add intents, each time from what is on disk, beginning again when somebody was faster."""
    done = 0
    while done < count:
        content = path.read_bytes()
        text = add_intent(content.decode(), Intent(f"INT-{first + done}", ("a",)), now=NOW)
        try:
            write_intents(path, text, expected_sha256=sha256(content), lock=lock)
        except IntentsFileChanged:
            continue
        done += 1


def test_writers_at_once_lose_no_update(path: Path, tmp_path: Path) -> None:
    path.write_text(ONE)
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import test_intents_file_edit as t;"
        "t.add_many(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), 8)"
    )
    folder = Path(__file__).parent
    workers = [
        subprocess.Popen([sys.executable, "-c", script, folder, path, tmp_path / "lock", str(first)])
        for first in (100, 200, 300)
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert len(read(path.read_text())) == 25


def test_yaml_is_not_imported_before_it_is_needed() -> None:
    script = "import sys, remit.workspace.intents_file.edit; assert not {'yaml', 'ruamel'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", script], check=True)
