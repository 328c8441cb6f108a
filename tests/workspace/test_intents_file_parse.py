"""Reading the intents file: a row for each finding code, and any bytes at all."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.core.intent import MAX_FILE_BYTES, Constraint, Criterion, IntentsDocument, LintFinding
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.intents_file.storage import read_intents
from remit.workspace.intents_file.yaml_nodes import compose_nodes

TIDY = """\
    constraints: [Keep it small]
    acceptance_criteria: [It works]
"""


def file(*intents: str) -> str:
    return "active_intents:\n" + "".join(intents)


def intent(intent_id: str = "INT-001", *lines: str, scope: str = "src/**") -> str:
    """A tidy intent of 4 lines and more: id, scope, `lines`, a constraint, a criterion."""
    body = "".join(f"    {line}\n" for line in lines)
    return f'  - id: {intent_id}\n    owned_scope: ["{scope}"]\n{body}{TIDY}'


def one(*lines: str) -> str:
    """A file of one intent, whose extra lines begin in line 4, their keys in column 5."""
    return file(intent("INT-001", *lines))


def found(text: str | bytes) -> list[tuple[str, str, str | None, str | None, int, int]]:
    content = text.encode() if isinstance(text, str) else text
    return [(f.code, f.severity, f.intent_id, f.field, f.line, f.column) for f in parse_intents(content).findings]


WORKING = "status: IN_PROGRESS"
OTHER = intent("INT-002", WORKING, scope="docs/**")

ROWS = [
    ("a: b: c", ("YAML_PARSE_ERROR", "error", None, None, 1, 5)),
    ("active_intents: []\n---\na: b\n", ("YAML_PARSE_ERROR", "error", None, None, 2, 1)),
    ("active_intents:\n\t- a\n", ("YAML_PARSE_ERROR", "error", None, None, 2, 1)),
    ("a: 1\nb: \x00\n", ("YAML_PARSE_ERROR", "error", None, None, 2, 4)),
    (b"a: 1\nb: \xc3\xa9\xff\n", ("YAML_PARSE_ERROR", "error", None, None, 2, 5)),
    ("a: " + "[" * 200_000, ("YAML_PARSE_ERROR", "error", None, None, 1, 43)),
    ("a: *nothing\n", ("YAML_PARSE_ERROR", "error", None, None, 1, 4)),
    ("a: &a [*a]\n", ("YAML_PARSE_ERROR", "error", None, None, 1, 8)),
    (one("references: [**/x]"), ("YAML_PARSE_ERROR", "error", None, None, 4, 19)),
    ("", ("MISSING_ACTIVE_INTENTS", "error", None, None, 1, 1)),
    ("# nothing yet\n", ("MISSING_ACTIVE_INTENTS", "error", None, None, 1, 1)),
    ("- id: INT-001\n", ("MISSING_ACTIVE_INTENTS", "error", None, None, 1, 1)),
    ('version: "1.0"\n', ("MISSING_ACTIVE_INTENTS", "error", None, "active_intents", 1, 1)),
    ("active_intents: later\n", ("INVALID_FIELD", "error", None, "active_intents", 1, 17)),
    ("version: 2\nactive_intents: []\n", ("INVALID_FIELD", "error", None, "version", 1, 10)),
    ("active_intents: []\nactive_intents: []\n", ("INVALID_FIELD", "error", None, "active_intents", 2, 1)),
    (file("  - INT-001\n"), ("INVALID_FIELD", "error", None, None, 2, 5)),
    (file(intent("int-1")), ("INVALID_ID_FORMAT", "error", "int-1", "id", 2, 9)),
    (file(intent("")), ("INVALID_ID_FORMAT", "error", None, "id", 2, 8)),
    (file("  - owned_scope: [a]\n" + TIDY), ("INVALID_ID_FORMAT", "error", None, "id", 2, 5)),
    (file(intent(), intent(scope="docs/**")), ("DUPLICATE_ID", "error", "INT-001", "id", 6, 9)),
    (one("status: DOING"), ("INVALID_STATUS", "error", "INT-001", "status", 4, 13)),
    (one("priority: urgent"), ("INVALID_FIELD", "error", "INT-001", "priority", 4, 15)),
    (one("network: some"), ("INVALID_FIELD", "error", "INT-001", "network", 4, 14)),
    (one("companions: maybe"), ("INVALID_FIELD", "error", "INT-001", "companions", 4, 17)),
    (one('companions: "true"'), ("INVALID_FIELD", "error", "INT-001", "companions", 4, 17)),
    (one("name: " + "x" * 201), ("INVALID_FIELD", "error", "INT-001", "name", 4, 11)),
    (one("name: [a]"), ("INVALID_FIELD", "error", "INT-001", "name", 4, 11)),
    (one("name: a", "name: b"), ("INVALID_FIELD", "error", "INT-001", "name", 5, 5)),
    (one("dependencies: INT-002"), ("INVALID_FIELD", "error", "INT-001", "dependencies", 4, 19)),
    (one("references: [~]"), ("INVALID_FIELD", "error", "INT-001", "references", 4, 18)),
    (one("? [a]", ": b"), ("INVALID_FIELD", "error", "INT-001", None, 4, 7)),
    (one("<<: {name: a}"), ("INVALID_FIELD", "error", "INT-001", None, 4, 5)),
    (one("description: !secret x"), ("INVALID_FIELD", "error", "INT-001", "description", 4, 18)),
    (
        file("  - id: INT-001\n    owned_scope: [src/**, !src/old/** ]\n" + TIDY),
        ("INVALID_FIELD", "error", "INT-001", "owned_scope", 3, 27),
    ),
    (file("  - id: INT-001\n" + TIDY), ("EMPTY_SCOPE", "error", "INT-001", "owned_scope", 2, 5)),
    (
        file("  - id: INT-001\n    owned_scope: []\n" + TIDY),
        ("EMPTY_SCOPE", "error", "INT-001", "owned_scope", 3, 18),
    ),
    (file(intent(scope="!src/**")), ("EMPTY_SCOPE", "error", "INT-001", "owned_scope", 3, 18)),
    (file(intent(scope="src/{a")), ("INVALID_GLOB", "error", "INT-001", "owned_scope", 3, 19)),
    (file(intent(scope="../x")), ("INVALID_GLOB", "error", "INT-001", "owned_scope", 3, 19)),
    (file(intent(scope="/etc/**")), ("ABSOLUTE_PATH", "error", "INT-001", "owned_scope", 3, 19)),
    (
        one("created_at: 2026-02-16"),
        ("INVALID_TIMESTAMP_FORMAT", "error", "INT-001", "created_at", 4, 17),
    ),
    (
        one("created_at: 2026-02-30T10:00:00Z"),
        ("INVALID_TIMESTAMP_FORMAT", "error", "INT-001", "created_at", 4, 17),
    ),
    (
        one("created_at: 2026-02-16T10:00:00"),
        ("INVALID_TIMESTAMP_FORMAT", "error", "INT-001", "created_at", 4, 17),
    ),
    (one("dependencies: [INT-009]"), ("INVALID_DEPENDENCY", "error", "INT-001", "dependencies", 4, 20)),
    (one("dependencies: [INT-001]"), ("INVALID_DEPENDENCY", "error", "INT-001", "dependencies", 4, 20)),
    (
        file(
            intent("INT-001", "dependencies: [INT-002]"),
            intent("INT-002", "dependencies: [INT-001]", scope="docs/**"),
        ),
        ("CIRCULAR_DEPENDENCY", "error", "INT-002", "dependencies", 9, 20),
    ),
    (one("parent_intent: INT-009"), ("INVALID_PARENT", "error", "INT-001", "parent_intent", 4, 20)),
    (one("parent_intent: INT-001"), ("INVALID_PARENT", "error", "INT-001", "parent_intent", 4, 20)),
    (
        file(intent("INT-001", "parent_intent: INT-002"), intent("INT-002", "parent_intent: INT-001")),
        ("INVALID_PARENT", "error", "INT-002", "parent_intent", 9, 20),
    ),
    (
        file(intent("INT-001", WORKING), intent("INT-002", WORKING, scope="src/app.py")),
        ("SCOPE_OVERLAP", "warning", "INT-002", "owned_scope", 8, 18),
    ),
    (file(intent(scope=r"src\\auth\\**")), ("DOUBTFUL_SCOPE", "warning", "INT-001", "owned_scope", 3, 19)),
    (file(intent(scope=" src/** ")), ("DOUBTFUL_SCOPE", "warning", "INT-001", "owned_scope", 3, 19)),
    (file(intent(scope=".git/hooks/**")), ("DOUBTFUL_SCOPE", "warning", "INT-001", "owned_scope", 3, 19)),
    (
        one("created_at: 2026-02-16T10:00:00+02:00", "updated_at: 2026-02-16T07:59:59Z"),
        ("INVALID_TIMESTAMP", "warning", "INT-001", "updated_at", 5, 17),
    ),
    (
        file("  - id: INT-001\n    owned_scope: [a]\n    acceptance_criteria: [b]\n"),
        ("MISSING_CONSTRAINTS", "warning", "INT-001", "constraints", 2, 5),
    ),
    (
        file("  - id: INT-001\n    owned_scope: [a]\n    constraints: [b]\n    acceptance_criteria: []\n"),
        ("MISSING_ACCEPTANCE_CRITERIA", "warning", "INT-001", "acceptance_criteria", 5, 26),
    ),
    (
        file(intent("INT-001", WORKING, "dependencies: [INT-002]"), OTHER),
        ("UNFINISHED_DEPENDENCY", "warning", "INT-001", "dependencies", 5, 20),
    ),
    (
        file(*(intent(f"INT-{n:03d}") for n in range(1, 1002))),
        ("TOO_MANY_INTENTS", "warning", "INT-1001", None, 4002, 5),
    ),
    (one("colour: red"), ("UNKNOWN_KEY", "warning", "INT-001", "colour", 4, 13)),
    ("active_intents: []\ncolour: red\n", ("UNKNOWN_KEY", "warning", None, "colour", 2, 9)),
    (
        one("constraints: [{type: max_words, max: 1}]").replace("    constraints: [Keep it small]\n", ""),
        ("INVALID_FIELD", "error", "INT-001", "constraints", 4, 26),
    ),
    (
        one("constraints: [{type: forbid_pattern, regex: (a+)+b}]").replace("    constraints: [Keep it small]\n", ""),
        ("INVALID_FIELD", "error", "INT-001", "constraints", 4, 49),
    ),
    (
        one("constraints: [{type: max_files, max: 1, min: 2}]").replace("    constraints: [Keep it small]\n", ""),
        ("INVALID_FIELD", "error", "INT-001", "constraints", 4, 50),
    ),
    (
        one("constraints: [{type: forbid_path}]").replace("    constraints: [Keep it small]\n", ""),
        ("INVALID_FIELD", "error", "INT-001", "constraints", 4, 19),
    ),
    (
        one("constraints: [{type: dependency, name: x, version: latest}]").replace(
            "    constraints: [Keep it small]\n", ""
        ),
        ("INVALID_FIELD", "error", "INT-001", "constraints", 4, 56),
    ),
    (
        one("constraints: [{type: max_lines, max: many}]").replace("    constraints: [Keep it small]\n", ""),
        ("INVALID_FIELD", "error", "INT-001", "constraints", 4, 42),
    ),
    (
        file("  INT-001: {id: INT-002, owned_scope: [a], constraints: [a], acceptance_criteria: [a]}\n"),
        ("INVALID_FIELD", "error", "INT-001", "id", 2, 17),
    ),
]


@pytest.mark.parametrize(("text", "expected"), ROWS, ids=[f"{n}-{row[1][0]}" for n, row in enumerate(ROWS)])
def test_each_finding_says_code_severity_intent_field_line_and_column(
    text: str | bytes, expected: tuple[str, str, str | None, str | None, int, int]
) -> None:
    assert found(text) == [expected]


@pytest.mark.parametrize("pattern", ["*.py", "**/x", "!src/old/**", "&x[a]"])
def test_a_pattern_that_yaml_takes_for_a_sign_gets_a_hint(pattern: str) -> None:
    for text in (f"active_intents:\n  - {{owned_scope: [{pattern}]}}\n", one("references:", f"- {pattern}")):
        messages = [f.message for f in parse_intents(text.encode()).errors]
        assert any("quote" in message for message in messages), (text, messages)


def test_every_code_has_a_row() -> None:
    codes = LintFinding.__annotations__["code"].__args__
    # Of more than one text: see test_intent_files.py, test_intents_file_resolve.py, test_dead_scopes.py, and of
    # tests/cli test_intent_lint.py and test_nested_rules.py.
    others = {"IN_BOTH_LAYOUTS", "VIEW_EDITED", "CONFLICT_MARKERS", "DEAD_SCOPE", "NESTED_RULES"}
    others |= {"NAME_MISMATCH", "CLOSED_THEN_CHANGED", "UID_CHANGED"}
    assert {row[1][0] for row in ROWS} == set(codes) - others


@pytest.mark.parametrize("nothing", ["", " []", " ~", " null # none", " {}"])
def test_a_file_without_intents_is_an_empty_list(nothing: str) -> None:
    text = f"active_intents:{nothing}\n"
    assert found(text) == []
    assert parse_intents(text.encode()).intents == ()


def test_everything_in_the_contract_is_read() -> None:
    document = parse_intents(
        b"""\
\xef\xbb\xbfversion: 1.0
active_intents:
  - id: INT-001
    owned_scope: ["src/auth/**", "!src/auth/legacy/**"]
    name: JWT authentication
    description: |
      Two
      lines
    status: IN_PROGRESS
    priority: HIGH
    owner: auth-team
    constraints:
      - Use bcrypt
      - {type: max_lines, paths: "src/**/*.py", max: 500}
      - {type: dependency, name: bcrypt, version: 1.10, text: Keep bcrypt}
    acceptance_criteria:
      - It works
      - {text: Unit tests pass, verify: "pytest -q"}
    companions: Yes
    network: none
    dependencies: [INT-002]
    parent_intent: null
    references: [docs/auth.md, "https://example.org/issue/12"]
    blocked_reason:
    created_at: 2026-02-16T10:00:00Z
    updated_at: 2026-02-16T14:30:00.5+01:00
  - {id: INT-002, owned_scope: [docs], status: COMPLETE}
metadata: {a: 1}
"""
    )
    assert document.findings == ()
    first, second = document.intents
    assert first.description == "Two\nlines\n"
    assert first.constraints == (
        Constraint("Use bcrypt"),
        Constraint('max_lines: paths="src/**/*.py", max=500', "max_lines", {"paths": "src/**/*.py", "max": 500}),
        Constraint("Keep bcrypt", "dependency", {"name": "bcrypt", "version": "1.10"}),
    )
    assert first.acceptance_criteria == (Criterion("It works"), Criterion("Unit tests pass", "pytest -q"))
    assert (first.companions, first.network, first.parent_intent, first.blocked_reason) == (True, "none", None, None)
    assert (first.created_at, first.updated_at) == ("2026-02-16T10:00:00Z", "2026-02-16T14:30:00.5+01:00")
    assert second.status == "DONE"


TRAPS = ["yes", "no", "on", "off", "1:30", "0o7", "0x1F", "007", "1.10", "1e5", "2026-02-16", "="]


@pytest.mark.parametrize("word", TRAPS)
def test_a_scalar_is_the_text_in_the_file(word: str) -> None:
    (intent_read,) = parse_intents(one(f"name: {word}", f"owner: '{word}'").encode()).intents
    assert (intent_read.name, intent_read.owner) == (word, word)


@pytest.mark.parametrize(
    ("field", "kind", "column"),
    [
        ("owner: 5", "int", 12),
        ("owner: yes", "bool", 12),
        ("owner: 1.10", "float", 12),
        ("owner: 2026-02-16", "timestamp", 12),
        ("references: [docs/a.md, 12]", "int", 29),
        ("references: [true]", "bool", 18),
    ],
)
def test_an_owner_or_a_reference_of_another_type_is_an_error(field: str, kind: str, column: int) -> None:
    document = parse_intents(one(field).encode())
    [finding] = document.errors
    assert (finding.code, finding.field, finding.column) == ("INVALID_FIELD", field.partition(":")[0], column)
    assert f"YAML reads as {kind}; expected text, in quotes" in finding.message


@pytest.mark.parametrize("field", ["owner: auth-team", "owner: '5'", 'references: ["12", "https://a.b/c#d", INT-002]'])
def test_an_owner_or_a_reference_that_is_text_is_none(field: str) -> None:
    assert not parse_intents(one(field).encode()).errors


def test_an_id_that_other_yaml_takes_for_a_boolean_stays_an_id() -> None:
    (intent_read,) = parse_intents(file(intent("NO-001")).encode()).intents
    assert intent_read.id == "NO-001"


@pytest.mark.parametrize(("alias", "status"), [("PENDING", "DRAFT"), ("COMPLETED", "DONE"), ("COMPLETE", "DONE")])
def test_older_status_words_are_read(alias: str, status: str) -> None:
    assert parse_intents(one(f"status: {alias}").encode()).intents[0].status == status


def test_the_mapping_form_reads_as_the_list_form() -> None:
    listed = "active_intents:\n  - {id: INT-001, owned_scope: [a]}\n  - {id: INT-002, owned_scope: [b]}\n"
    mapped = "active_intents:\n  INT-001: {owned_scope: [a]}\n  INT-002: {owned_scope: [b]}\n"
    assert parse_intents(mapped.encode()).intents == parse_intents(listed.encode()).intents


def test_one_bad_intent_hides_no_other() -> None:
    text = file(intent("INT-001"), intent("INT-002", "status: DOING"), "  - 7\n", intent("INT-003"))
    document = parse_intents(text.encode())
    assert [i.id for i in document.intents] == ["INT-001", "INT-003"]
    assert [f.code for f in document.findings] == ["INVALID_STATUS", "INVALID_FIELD"]


def test_several_errors_of_one_intent_are_all_named() -> None:
    text = one("status: DOING", "priority: urgent", "name: [a]", "created_at: soon", "companions: 3")
    assert [row[3] for row in found(text)] == ["status", "priority", "name", "created_at", "companions"]


def test_a_dependency_on_a_broken_intent_is_no_second_error() -> None:
    text = file(intent("INT-001", "dependencies: [INT-002]"), intent("INT-002", "status: DOING"))
    assert [f.code for f in parse_intents(text.encode()).findings] == ["INVALID_STATUS"]


def test_anchors_are_read_and_an_alias_bomb_is_refused() -> None:
    shared = file(
        "  - {id: INT-001, owned_scope: &s [src/**], constraints: [a], acceptance_criteria: [a]}\n",
        "  - {id: INT-002, owned_scope: *s, constraints: [a], acceptance_criteria: [a]}\n",
    )
    assert [i.owned_scope for i in parse_intents(shared.encode()).intents] == [("src/**",)] * 2
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert [row[0] for row in found(f"a0: &a0 [x]\n{levels}active_intents: *a29\n")] == ["YAML_PARSE_ERROR"]


def test_a_file_over_the_limit_is_refused_and_the_limit_named() -> None:
    (finding,) = parse_intents(b"#" * (10 * 1024 * 1024)).findings
    assert (finding.code, "4 MiB" in finding.message) == ("YAML_PARSE_ERROR", True)


def test_the_parser_without_c_reads_the_same() -> None:
    text = file(intent("INT-001", "description: >+", "  é 😀", "", "name: &a 'x'", "owner: *a"), OTHER)
    assert compose_nodes(text, pure=True) == compose_nodes(text)
    assert [f.code for f in parse_intents(text.encode()).findings] == []


def test_a_thousand_intents_in_progress_take_well_under_two_seconds() -> None:
    text = file(*(intent(f"INT-{n:03d}", WORKING, scope=f"src/**/{n}*/*.py") for n in range(1000)))
    start = time.process_time()
    document = parse_intents(text.encode())
    assert time.process_time() - start < 2
    assert "not every pair" in document.findings[-1].message


YAMLISH = st.lists(
    st.sampled_from(
        [
            *(
                "active_intents:",
                "  - ",
                "id: ",
                "INT-001",
                "\n",
                "    ",
                "owned_scope: ",
                "[",
                "]",
                "{",
                "}",
                ",",
                ": ",
            ),
            *("&a ", "*a", "!", "|", ">", "'", '"', "#", "~", "? ", "- ", "\t", "---\n", "%", "é", "\x85", "\u2028"),
            *("constraints: ", "{type: max_lines, max: 1}", "acceptance_criteria: ", "dependencies: ", "<<: ", "\r\n"),
        ]
    )
).map("".join)


@settings(max_examples=1000, deadline=None)
@given(st.binary() | YAMLISH.map(str.encode) | st.text().map(str.encode))
def test_no_bytes_make_the_reader_raise(content: bytes) -> None:
    document = parse_intents(content)
    assert all(f.line >= 1 and f.column >= 1 for f in document.findings)
    assert document.sha256


# -- files


def test_an_absent_file_is_none(tmp_path: Path) -> None:
    assert read_intents(tmp_path / "active_intents.yaml") is None


def make_folder(path: Path) -> None:
    path.mkdir()


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_link(path: Path) -> None:
    path.with_name("real.yaml").write_text("active_intents: []\n")
    path.symlink_to("real.yaml")


def make_huge(path: Path) -> None:
    with path.open("wb") as file_:
        file_.truncate(MAX_FILE_BYTES + 1)


@pytest.mark.parametrize("make", [make_folder, make_fifo, make_link, make_huge])
def test_what_is_no_readable_file_is_one_error(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "active_intents.yaml"
    make(path)
    document = read_intents(path, tmp_path / "cache")
    assert document is not None
    assert [f.code for f in document.errors] == ["YAML_PARSE_ERROR"]
    assert str(path) in document.errors[0].message
    assert not (tmp_path / "cache").exists()


@pytest.fixture
def intents_file(tmp_path: Path) -> Path:
    path = tmp_path / "active_intents.yaml"
    path.write_text(one("constraints: [{type: max_lines, max: 3}]", "description: é"))
    return path


def test_a_warm_cache_gives_the_same_document(intents_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "state" / "intents.cache"
    cold = read_intents(intents_file, cache)
    assert cache.is_file()
    assert read_intents(intents_file, cache) == cold == parse_intents(intents_file.read_bytes())


def test_a_changed_file_is_read_anew(intents_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "intents.cache"
    read_intents(intents_file, cache)
    intents_file.write_text("active_intents: []\n")
    document = read_intents(intents_file, cache)
    assert document is not None
    assert document.intents == ()


def cached(*parts: object) -> bytes:
    return msgspec.msgpack.encode(parts)


@pytest.mark.parametrize("cut", ["empty", "half", "flipped", "format", "key", "folder"])
def test_a_cache_that_does_not_fit_is_passed_over(cut: str, intents_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "intents.cache"
    good = read_intents(intents_file, cache)
    assert good is not None
    content = cache.read_bytes()
    forged = IntentsDocument((), (), good.sha256)
    contents = {
        "empty": b"",
        "half": content[: len(content) // 2],
        "flipped": b"\xc1" + content[1:],
        "format": cached(-1, good.sha256, forged),
        "key": cached(1, "0" * 64, forged),
    }
    cache.unlink()
    if cut == "folder":
        cache.mkdir()
    else:
        cache.write_bytes(contents[cut])
    assert read_intents(intents_file, cache) == good


def test_a_cache_that_cannot_be_written_is_done_without(intents_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert read_intents(intents_file, tmp_path / "file" / "cache") == parse_intents(intents_file.read_bytes())


def test_the_cache_leaves_nothing_beside_it(intents_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "state" / "cache"
    read_intents(intents_file, cache)
    assert [p.name for p in cache.parent.iterdir()] == ["cache"]


def test_yaml_is_not_imported_while_the_cache_is_warm(intents_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    read_intents(intents_file, cache)
    script = (
        "import sys; from pathlib import Path; from remit.workspace.intents_file.storage import read_intents;"
        "assert read_intents(Path(sys.argv[1]), Path(sys.argv[2])).sha256;"
        "assert not {'yaml', 'ruamel.yaml'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script, intents_file, cache], check=True)


def test_other_names_of_constraints_are_read() -> None:
    text = one(
        """constraints:
      - {type: library_version, library: bcrypt, min_version: "5.0.0", validation: Check the manifest}
      - {type: file_size, max_lines: 500, scope: "src/**/*.ts", validation: Count lines}"""
    ).replace("    constraints: [Keep it small]\n", "")
    document = parse_intents(text.encode())
    assert not document.errors
    assert [(c.kind, c.options) for c in document.intents[0].constraints] == [
        ("dependency", {"name": "bcrypt", "version": ">=5.0.0"}),
        ("max_lines", {"max": 500, "paths": "src/**/*.ts"}),
    ]
