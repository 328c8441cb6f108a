"""Files of one intent each: read one by one, joined with a list, and each broken one closes its own intent only."""

import os
from pathlib import Path

import pytest

from remit.core.intent import Intent, IntentsDocument
from remit.workspace.intents_file import storage
from remit.workspace.intents_file.edit import name_intent_file, render_intent_file, set_fields
from remit.workspace.intents_file.storage import FILES_CACHE, join_layouts, read_intent_files, read_intents
from remit.workspace.intents_file.view import is_edited, write_view

FILE = "id: {0}\nowned_scope:\n  - {1}/**\ncreated_at: 2026-11-28T14:02:11Z\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "intents/closed").mkdir(parents=True)
    (tmp_path / "intents/README.md").write_text("no intent\n")
    for number in (1, 2):
        put(tmp_path, f"INT-00{number}.yaml", FILE.format(f"INT-00{number}", f"a{number}"))
    return tmp_path


def put(folder: Path, name: str, text: str | bytes) -> None:
    (folder / "intents" / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def read(folder: Path) -> IntentsDocument:
    files = read_intent_files(folder)
    known = frozenset(file.intent_id for file in files if file.intent_id)
    return join_layouts(read_intents(folder / "active_intents.yaml", None, known), files)


def codes(document: IntentsDocument) -> set[tuple[str, str, str | None]]:
    return {(f.code, f.file, f.intent_id) for f in document.findings if not f.code.startswith("MISSING")}


def test_closed_ones_are_read_too(folder: Path) -> None:
    put(folder, "closed/INT-009-old.yaml", FILE.format("INT-009", "z") + "status: DONE\n")
    document = read(folder)
    assert [(i.id, i.status) for i in document.intents] == [
        ("INT-001", "DRAFT"),
        ("INT-002", "DRAFT"),
        ("INT-009", "DONE"),
    ]
    assert document.files["INT-009"] == "intents/closed/INT-009-old.yaml"


TRAPS: dict[str, bytes] = {
    "tabs": b"id: INT-001\nowned_scope:\n\t- a\n",
    "an alias": b"id: INT-001\nowned_scope: [**]\n",
    "a merge key": b"id: INT-001\n<<: {x: 1}\nowned_scope: [a]\n",
    "a key twice": b"id: INT-001\nowned_scope: [a]\nstatus: DONE\nstatus: DRAFT\n",
    "a NUL": b"id: INT-001\nowned_scope: [a]\n\0",
    "no UTF-8": b"id: INT-001\nowned_scope: [\xff]\n",
    "conflict markers": b"id: INT-001\n<<<<<<< ours\nowned_scope: [a]\n=======\nowned_scope: [b]\n>>>>>>> theirs\n",
    "a list": b"active_intents:\n  - {id: INT-001, owned_scope: [a]}\n",
    "nothing": b"",
    "an unknown dependency": b"id: INT-001\nowned_scope: [a]\ndependencies: [INT-777]\n",
    "too large": b"#" * (4 << 20) + b"\n" + b"id: INT-001\nowned_scope: [a]\n",
}


@pytest.mark.parametrize("text", TRAPS.values(), ids=TRAPS.keys())
def test_a_broken_file_closes_its_own_intent(folder: Path, text: bytes) -> None:
    put(folder, "INT-001.yaml", text)
    document = read(folder)
    assert {f.intent_id for f in document.errors} == {"INT-001"}
    assert {f.file for f in document.errors} == {"intents/INT-001.yaml"}
    assert "INT-002" in {i.id for i in document.intents}


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_is_not_followed(folder: Path, tmp_path: Path, kind: str) -> None:
    path = folder / "intents" / "INT-003-x.yaml"
    outside = tmp_path / "outside.yaml"
    outside.write_text(FILE.format("INT-003", "x"))
    match kind:
        case "link":
            path.symlink_to(outside)
        case "fifo":
            os.mkfifo(path)
        case _:
            path.mkdir()
    assert {(f.code, f.intent_id) for f in read(folder).errors} == {("YAML_PARSE_ERROR", "INT-003")}


def test_a_mark_and_windows_line_ends_are_read(folder: Path) -> None:
    put(folder, "INT-001.yaml", b"\xef\xbb\xbf" + FILE.format("INT-001", "a").replace("\n", "\r\n").encode())
    assert not read(folder).errors


def test_two_files_of_one_label_close_both_and_nothing_else(folder: Path) -> None:
    put(folder, "INT-001-theirs.yaml", FILE.format("INT-001", "b"))
    document = read(folder)
    assert [i.id for i in document.intents] == ["INT-002"]
    assert {(f.code, f.file) for f in document.errors} == {
        ("DUPLICATE_ID", "intents/INT-001.yaml"),
        ("DUPLICATE_ID", "intents/INT-001-theirs.yaml"),
    }
    assert "remit intent renumber INT-001" in document.errors[0].message


def test_list_and_files_are_one_and_the_file_counts(folder: Path) -> None:
    rows = (
        "  - {id: INT-001, owned_scope: [other/**]}\n  - {id: INT-005, owned_scope: [e/**], dependencies: [INT-002]}\n"
    )
    (folder / "active_intents.yaml").write_text("active_intents:\n" + rows)
    put(folder, "INT-002.yaml", FILE.format("INT-002", "b") + "dependencies: [INT-005]\n")
    document = read(folder)
    assert sorted(i.id for i in document.intents) == ["INT-001", "INT-002", "INT-005"]
    assert next(i for i in document.intents if i.id == "INT-001").owned_scope == ("a1/**",)
    assert codes(document) == {("IN_BOTH_LAYOUTS", "active_intents.yaml", "INT-001")}


def test_a_broken_list_closes_the_list(folder: Path) -> None:
    (folder / "active_intents.yaml").write_text("active_intents: {")
    document = read(folder)
    assert [f.file for f in document.errors] == ["active_intents.yaml"]
    assert [i.id for i in document.intents] == ["INT-001", "INT-002"]


def test_an_edit_parses_one_file(folder: Path) -> None:
    old = 1_700_000_000
    for path in (folder / "intents").glob("*.yaml"):
        os.utime(path, (old, old))
    FILES_CACHE.clear()
    cache = folder / "cache"
    before = {file.name: file for file in read_intent_files(folder, cache)}
    put(folder, "INT-002.yaml", FILE.format("INT-002", "changed"))
    after = {file.name: file for file in read_intent_files(folder, cache)}
    assert after["intents/INT-002.yaml"] != before["intents/INT-002.yaml"]
    assert cache.exists()


def test_too_many_open_files_are_refused(folder: Path) -> None:
    limit = storage.INTENT_FILES.value
    for number in range(limit):
        (folder / "intents" / f"INT-{number + 100}.yaml").touch()
    with pytest.raises(OSError, match="files of open intents"):
        read_intent_files(folder)


def test_a_new_file_has_an_item_a_line_and_no_progress() -> None:
    intent = Intent(
        "INT-204917",
        ("src/auth/login.py", "tests/auth/**"),
        name="Rate limits at login!",
        status="IN_PROGRESS",
        source={"request": 'rate limits, see "#12"', "by": "person"},
        created_at="2026-11-28T14:02:11Z",
        updated_at="2026-11-28T14:02:11Z",
    )
    assert name_intent_file(intent) == "INT-204917-rate-limits-at-login.yaml"
    text = render_intent_file(intent)
    assert text.splitlines() == [
        "id: INT-204917",
        'name: "Rate limits at login!"',
        "",
        "owned_scope:",
        "  - src/auth/login.py",
        "  - tests/auth/**",
        "",
        'source: {request: "rate limits, see \\"#12\\"", by: person}',
        "created_at: 2026-11-28T14:02:11Z",
    ]
    assert set_fields(text, "INT-204917", {"status": "DONE"}, now=None) == text + "status: DONE\n"


def test_the_view_is_no_intents_file_and_keeps_what_a_person_wrote(folder: Path) -> None:
    path, document = folder / "active_intents.yaml", read(folder)
    write_view(folder, document, {})
    assert not path.exists()
    (folder / ".gitignore").write_text("active_intents.yaml\n")
    write_view(folder, document, {"INT-001": "2026-11-29T00:00:00Z"})
    assert read_intents(path) is None
    assert "2026-11-29T00:00:00Z" in path.read_text()
    path.write_text(path.read_text().replace("status: DRAFT", "status: IN_PROGRESS"))
    assert not is_edited(path, document), "an older Remit wrote a status"
    path.write_text(path.read_text().replace("a1/**", "**"))
    assert is_edited(path, document)
    edited = path.read_bytes()
    write_view(folder, document, {})
    assert path.read_bytes() == edited
