"""Each kind of constraint: passing files, breaches, and breaches in unusual spellings."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Facts, SessionFacts, Target
from remit.core.diff.edits import ProposedFile
from remit.core.intent import Constraint, Intent, IntentSet
from remit.core.intents.constraints import (
    CONSTRAINT_KINDS,
    InvalidConstraint,
    find_constraint_problems,
    parse_constraint,
)
from remit.core.scope.path_patterns import RepoPath
from remit.policy.constraint_kinds import KINDS, Breach, ProposedChange
from remit.policy.decide import decide

CALL = ToolCall(agent="a", session=SessionKey("s"), tool="Write", effect="write", cwd="/w")


def find_breaches(kind: str, options: dict[str, Any], situation: ProposedChange) -> list[Breach]:
    """What is wrong, once the options are known to be right."""
    assert find_constraint_problems(kind, options) == ()
    return list(KINDS[kind](Constraint("text", kind, options), situation))


def leaves(path: str, after: bytes | str | None, before: bytes | str | None = None) -> ProposedChange:
    """A change of one file."""
    old, new = (side.encode() if isinstance(side, str) else side for side in (before, after))
    return ProposedChange((ProposedFile(path, old, new),), (path,))


def notebook(*cells: str, language: str = "python") -> str:
    """A notebook of code cells."""
    made: list[dict[str, Any]] = [
        {"cell_type": "code", "source": [cell], "metadata": {}, "outputs": []} for cell in cells
    ]
    return json.dumps({"cells": made, "metadata": {"language_info": {"name": language}}, "nbformat": 4})


FINE = [
    ("max_lines", {"max": 3}, leaves("a", "1\n2\n3\n")),
    ("max_lines", {"max": 3}, leaves("a", "1\n2\n3")),
    ("max_lines", {"max": 0}, leaves("a", "")),
    ("max_lines", {"max": 1, "paths": "src/**"}, leaves("docs/a", "1\n2\n")),
    ("max_lines", {"max": 1}, leaves("a", None, "1\n2\n")),
    ("max_lines", {"max": 1}, leaves("a", "1\n2\n", "1\n2\n3\n")),
    ("max_lines", {"max": 20_000}, leaves("a", "x\n" * 20_000)),
    ("forbid_pattern", {"regex": "eval"}, leaves("a", "print")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "# eval(x)\ns = 'eval(x)'\n")),
    ("forbid_pattern", {"pattern": "eval($$$)", "language": "python"}, leaves("a.js", "eval(x)")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("README", "eval(x)")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "y = 1\neval(x)\n", "eval(x)\n")),
    ("require_pattern", {"regex": "^# Copyright"}, leaves("a.py", "# Copyright\n")),
    ("require_pattern", {"pattern": "import logging"}, leaves("a.py", "import logging\n")),
    ("require_pattern", {"pattern": "import logging"}, leaves("a.txt", "none")),
    ("require_pattern", {"regex": "x", "paths": "src/**"}, leaves("docs/a.py", "none")),
    ("forbid_import", {"module": "os"}, leaves("a.py", "import ost\nfrom x import os2\nos = 1\n# import os\n")),
    ("forbid_import", {"module": "os"}, leaves("a.txt", "import os")),
    ("forbid_import", {"module": "lodash"}, leaves("a.js", "import x from 'lodash-es'; const l = 'lodash'")),
    ("forbid_path", {"paths": "vendor/**"}, leaves("src/a", "x")),
    ("dependency", {"name": "requests", "version": ">=2.31,<3"}, leaves("requirements.txt", "requests==2.32.0\n")),
    ("dependency", {"name": "requests", "version": ">=2.31"}, leaves("requirements.txt", "requests-oauthlib\n")),
    ("dependency", {"name": "x", "forbid": True}, leaves("notes.txt", "x==1")),
    (
        "dependency",
        {"name": "left-pad", "version": "^1.2"},
        leaves("package.json", '{"dependencies":{"left-pad":"~1.2.3"}}'),
    ),
    ("max_files", {"max": 2}, ProposedChange((), ("a",), ("a", "b"))),
    ("max_files", {"max": 2}, ProposedChange((), ("b",), ("a",))),
    (
        "require_test_change",
        {"paths": "src/**"},
        ProposedChange((), ("src/a.py",), ("tests/test_a.py",), is_final=True),
    ),
    ("require_test_change", {"paths": "src/**"}, ProposedChange((), ("docs/a.md",), (), is_final=True)),
    ("require_test_change", {"tests": "check/**"}, ProposedChange((), ("a.py", "check/a.py"), (), is_final=True)),
]


@pytest.mark.parametrize(("kind", "options", "situation"), FINE)
def test_what_keeps_to_a_constraint_passes(kind: str, options: dict[str, Any], situation: ProposedChange) -> None:
    assert find_breaches(kind, options, situation) == []


PY = "forbid_import", {"module": ["os", "pkg.secret"]}
BREACHES = [
    ("max_lines", {"max": 3}, leaves("a", "1\n2\n3\n4")),
    ("max_lines", {"max": 3}, leaves("a", "1\r\n2\r\n3\r\n4\r\n")),
    ("max_lines", {"max": 3}, leaves("a", "1\r2\r3\r4\r")),
    ("max_lines", {"max": 3}, leaves("a", b"\xef\xbb\xbf1\n2\n3\n\xff\n")),
    ("max_lines", {"max": 3}, leaves("a", "1\n2\n3\n4\n".encode("utf-16"))),
    ("max_lines", {"max": 3}, leaves("a", "1\n2\n3\n4\n5\n", "1\n2\n3\n4\n")),
    ("max_lines", {"max": 19_999}, leaves("a", "x\n" * 20_000)),
    ("max_lines", {"max": 10}, leaves("a", b"x" * (5 << 20))),
    ("forbid_pattern", {"regex": "eval"}, leaves("a", "x\r\neval(1)")),
    ("forbid_pattern", {"regex": "eval"}, leaves("a", b"\xff\xfeeval".replace(b"\xff\xfe", b"\xe9 "))),
    ("forbid_pattern", {"regex": "eval"}, leaves("a", "eval".encode("utf-16"))),
    ("forbid_pattern", {"regex": r"password\s*=\s*['\"]"}, leaves("a", "password = 'x'")),
    ("forbid_pattern", {"regex": "eval"}, leaves("a.py", "# coding: utf-7\n+AGUAdgBhAGw-(1)\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "eval\\\n(1)\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "# a \\\neval(1)\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "\uff45val(1)\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "eval (\n  x,\n)\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "\ufeffif x:\r\n\teval(1)\r\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "x = 1\n" * 20_000 + "eval(x)\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "eval(y)\n", "eval(x)\n")),
    ("forbid_pattern", {"pattern": "eval($$$)"}, leaves("n.ipynb", notebook("x = 1", "%%time\neval(x)"))),
    ("forbid_pattern", {"pattern": "eval($$$)", "language": "python", "paths": "bin/*"}, leaves("bin/tool", "eval(1)")),
    ("forbid_pattern", {"pattern": "$X as any", "language": "typescript"}, leaves("a.tsx", "const y = x as any")),
    ("forbid_pattern", {"pattern": "system($$$)"}, leaves("a.c", 'void f() { system("x"); }')),
    ("forbid_pattern", {"pattern": "$X.unwrap()"}, leaves("a.rs", "fn f() { x.y().unwrap(); }")),
    ("forbid_pattern", {"pattern": "System.exit($X)"}, leaves("A.java", "class A { void f() { System.exit(1); } }")),
    ("forbid_pattern", {"pattern": "fmt.Println($$$)"}, leaves("a.go", 'package a\nfunc f() { fmt.Println("x") }\n')),
    ("require_pattern", {"regex": "^# Copyright"}, leaves("a.py", "x\n")),
    ("require_pattern", {"regex": "^# Copyright"}, leaves("a.py", "x\n", "# Copyright\nx\n")),
    ("require_pattern", {"pattern": "import logging"}, leaves("a.py", "# import logging\n")),
    (*PY, leaves("a.py", "import os")),
    (*PY, leaves("a.py", "import sys, os.path as p")),
    (*PY, leaves("a.py", "if x:\n    from os import (\n  path as p)\n")),
    (*PY, leaves("a.py", "import \\\n  os\r\n")),
    (*PY, leaves("a.py", "__import__('o' 's')")),
    (*PY, leaves("a.py", "__import__('\\x6f\\x73')")),
    (*PY, leaves("a.py", "import importlib\nimportlib.import_module(name='os')")),
    (*PY, leaves("a.py", "__import__(f'os')")),
    (*PY, leaves("a.py", "import \uff4fs")),
    (*PY, leaves("a.py", "from pkg import secret")),
    (*PY, leaves("a.py", "from pkg import *")),
    (*PY, leaves("pkg/sub/a.py", "from .. import secret")),
    (*PY, leaves("pkg/a.py", "from .secret import key")),
    (*PY, leaves("a.py", "def f(:\n import os\n")),
    (*PY, leaves("a.py", "match x:\n  case 1: )\nimport os as o\n")),
    (*PY, leaves("n.ipynb", notebook("%matplotlib\nimport os"))),
    ("forbid_import", {"module": "lodash"}, leaves("a.js", "import {x} from 'lodash'")),
    ("forbid_import", {"module": "lodash"}, leaves("a.mjs", "export * from 'lodash/fp'")),
    ("forbid_import", {"module": "lodash"}, leaves("a.cjs", "const x = require(`lodash`)")),
    ("forbid_import", {"module": "lodash"}, leaves("a.ts", "import l = require('lodash')")),
    ("forbid_import", {"module": "lodash"}, leaves("a.tsx", "const l = await import('lod\\u0061sh')")),
    ("forbid_import", {"module": "fs"}, leaves("a.js", "module.require('node:fs')")),
    ("forbid_import", {"module": "node:fs"}, leaves("a.js", "require('fs/promises')")),
    ("forbid_import", {"module": "os/exec"}, leaves("a.go", 'package a\nimport (\n  x "os/exec"\n)\n')),
    ("forbid_import", {"module": "unsafe"}, leaves("a.go", "package a\nimport _ `unsafe`\n")),
    ("forbid_import", {"module": "std::process"}, leaves("a.rs", "use std::{fs, process::{Command as C}};")),
    ("forbid_import", {"module": "std::process"}, leaves("a.rs", "fn f() { std::process::Command::new(x); }")),
    ("forbid_import", {"module": "std::process"}, leaves("a.rs", "use ::std::*;")),
    ("forbid_import", {"module": "libc"}, leaves("a.rs", "extern crate libc;")),
    ("forbid_import", {"module": "java.util.List"}, leaves("A.java", "import java.util.*;\nclass A {}")),
    ("forbid_import", {"module": "java.util"}, leaves("A.java", "class A { java.util.List<String> x; }")),
    (
        "forbid_import",
        {"module": "java.lang.Runtime"},
        leaves("A.java", 'class A { Object x = Class.forName("java.lang.Runtime"); }'),
    ),
    ("forbid_import", {"module": "stdio.h"}, leaves("a.c", "#include <stdio.h>\n")),
    ("forbid_path", {"paths": "vendor/**"}, ProposedChange((), ("src/a", "vendor/x"))),
    (
        "dependency",
        {"name": "requests", "version": ">=2.31,<3"},
        leaves("requirements-dev.txt", "Requests[security] >= 2\n"),
    ),
    (
        "dependency",
        {"name": "requests", "version": ">=2.31,<3"},
        leaves("requirements.txt", "requests @ git+https://x/y\n"),
    ),
    ("dependency", {"name": "requests", "version": ">=2.31,<3"}, leaves("requirements.txt", "requests\\\n==1.0\n")),
    (
        "dependency",
        {"name": "requests", "version": ">=2"},
        leaves("requirements.txt", "requests==0.9\n", "requests==1\n"),
    ),
    ("dependency", {"name": "a_b", "forbid": True}, leaves("pyproject.toml", '[dependency-groups]\ndev = ["A-B>1"]\n')),
    (
        "dependency",
        {"name": "x", "forbid": True},
        leaves("pyproject.toml", '[project.optional-dependencies]\ny = ["x"]'),
    ),
    (
        "dependency",
        {"name": "x", "version": "<2"},
        leaves("pyproject.toml", '[tool.poetry.dependencies]\nx = "^2.0"\n'),
    ),
    (
        "dependency",
        {"name": "left-pad", "version": "^1.2"},
        leaves("package.json", '{"devDependencies":{"left-pad":"*"}}'),
    ),
    (
        "dependency",
        {"name": "left-pad", "forbid": True},
        leaves("package.json", '{"dependencies":{"p":"npm:left-pad@1"}}'),
    ),
    (
        "dependency",
        {"name": "serde", "version": "^1"},
        leaves("Cargo.toml", '[target."cfg(unix)".dependencies]\nserde = "0.9"'),
    ),
    (
        "dependency",
        {"name": "serde", "forbid": True},
        leaves("Cargo.toml", '[dependencies]\ns = { package = "serde", git = "x" }'),
    ),
    (
        "dependency",
        {"name": "example.org/x", "version": ">=1.2"},
        leaves("go.mod", "require (\n\texample.org/x v1.1.0\n)\n"),
    ),
    (
        "dependency",
        {"name": "example.org/x", "forbid": True},
        leaves("go.mod", "replace a.b/c => example.org/x v1.0.0\n"),
    ),
    ("dependency", {"name": "x", "forbid": True}, leaves("package.json", "{")),
    ("max_files", {"max": 2}, ProposedChange((), ("c",), ("a", "b"))),
    ("max_files", {"max": 1}, ProposedChange((), ("a", "b"))),
    ("max_files", {"max": 1}, ProposedChange((), (), ("a", "b"), is_final=True)),
    ("require_test_change", {"paths": "src/**"}, ProposedChange((), ("src/a.py",), ("src/b.py",), is_final=True)),
]


@pytest.mark.parametrize(("kind", "options", "situation"), BREACHES)
def test_what_breaks_a_constraint_is_found(kind: str, options: dict[str, Any], situation: ProposedChange) -> None:
    found = find_breaches(kind, options, situation)
    assert found
    assert all(breach.measured and breach.bound for breach in found)
    assert not found[0].is_remark


def test_a_missing_test_is_only_told_before_the_end() -> None:
    [breach] = find_breaches("require_test_change", {}, ProposedChange((), ("src/a.py",)))
    assert breach.is_remark


def test_the_lines_are_named() -> None:
    [breach] = find_breaches("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", "x\neval(1)\n\neval(2)\n"))
    assert (breach.lines, breach.measured) == ((2, 4), "`eval($$$)` (line 2, line 4)")
    [breach] = find_breaches("dependency", {"name": "x", "version": "1"}, leaves("requirements.txt", "y\nx==2\n"))
    assert breach.lines == (2,)


def test_lines_keep_their_numbers_where_others_are_joined() -> None:
    text = "x = 1 + \\\n 2\neval\\\r\n (1)\n\neval(2); eval(3)\n"
    [breach] = find_breaches("forbid_pattern", {"pattern": "eval($$$)"}, leaves("a.py", text))
    assert (breach.lines, breach.weight) == ((3, 6), 3)


def test_a_content_that_is_not_known_is_left_to_what_comes_after() -> None:
    unknown = ProposedChange((ProposedFile("a", b"", None, known=False),), ("a",))
    assert find_breaches("max_lines", {"max": 0}, unknown) == []
    assert find_breaches("forbid_path", {"paths": "a"}, unknown) != []


def deciding(constraint: Constraint, after: bytes) -> tuple[str, str]:
    """The verdict on a call that leaves this in `a.py`, and the message."""
    intent = Intent("INT-001", ("**",), status="IN_PROGRESS", constraints=(constraint,))
    target = Target("a.py", "/w/a.py", RepoPath.parse("a.py", "/w"))
    facts = Facts(
        "enforce",
        SessionFacts("INT-001", "selected"),
        IntentSet((intent,)),
        targets=(target,),
        proposed=(ProposedFile("a.py", None, after),),
    )
    decision = decide(CALL, facts)
    return decision.verdict, decision.leading.code if decision.leading else ""


def test_a_constraint_that_cannot_be_judged_denies() -> None:
    assert deciding(Constraint("x", "max_lines", {"max": "many"}), b"1\n") == ("deny", "HOOK_BLOCKED")
    assert deciding(Constraint("x", "no_such_kind", {}), b"1\n") == ("deny", "HOOK_BLOCKED")
    assert deciding(Constraint("x", "forbid_pattern", {"pattern": "print(", "language": "python"}), b"1\n") == (
        "deny",
        "HOOK_BLOCKED",
    )
    assert deciding(Constraint("x", "max_lines", {"max": 1}), b"1\n") == ("allow", "")


def test_every_kind_that_can_be_written_is_enforced() -> None:
    assert set(KINDS) == set(CONSTRAINT_KINDS)


@given(
    st.sampled_from(sorted(CONSTRAINT_KINDS)),
    st.dictionaries(
        st.sampled_from(
            ["max", "paths", "pattern", "regex", "module", "name", "version", "forbid", "language", "tests", "zzz"]
        ),
        st.integers() | st.text(max_size=8) | st.none() | st.booleans() | st.lists(st.text(max_size=5), max_size=2),
    ),
)
def test_any_options_are_judged_and_none_breaks_the_reader(kind: str, options: dict[str, Any]) -> None:
    for problem in find_constraint_problems(kind, options):
        assert problem.message


@given(
    st.binary(max_size=200),
    st.sampled_from(sorted(CONSTRAINT_KINDS)),
    st.sampled_from(
        ["a.py", "a.ts", "n.ipynb", "Cargo.toml", "package.json", "go.mod", "a.rs", "A.java", "requirements.txt", "x"]
    ),
)
def test_no_content_breaks_a_kind(content: bytes, kind: str, path: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "max_lines": {"max": 1},
        "max_files": {"max": 0},
        "forbid_pattern": {"pattern": "f($$$)"},
        "require_pattern": {"regex": "f"},
        "forbid_import": {"module": "os"},
        "forbid_path": {"paths": "**"},
        "dependency": {"name": "x", "forbid": True},
    }
    list(
        KINDS[kind](
            Constraint("t", kind, options.get(kind, {})), ProposedChange((ProposedFile(path, None, content),), (path,))
        )
    )


def test_a_text_made_to_take_for_ever_is_not_looked_into() -> None:
    [breach] = find_breaches("forbid_pattern", {"regex": "a.*a.*b"}, leaves("a", ("a" * 500 + "\n") * 5000))
    assert "could take too long" in breach.measured


LINES: list[tuple[str, str | None, dict[str, Any]]] = [
    ("Be kind: to users", None, {}),
    ("note: x=1", None, {}),
    ("max_lines: 500", "max_lines", {"max": 500}),
    ('max_lines: paths="src/**", max=5', "max_lines", {"paths": "src/**", "max": 5}),
    ("forbid_pattern: eval($$$A)", "forbid_pattern", {"pattern": "eval($$$A)"}),
    ("forbid_pattern: regex=TODO", "forbid_pattern", {"regex": "TODO"}),
    ("dependency: name=x, version=>=2,<3", "dependency", {"name": "x", "version": ">=2,<3"}),
    ("forbid_path: vendor/**", "forbid_path", {"paths": "vendor/**"}),
    ("require_test_change:", "require_test_change", {}),
]


@pytest.mark.parametrize(("line", "kind", "options"), LINES)
def test_a_constraint_is_read_from_one_line(line: str, kind: str | None, options: dict[str, Any]) -> None:
    found = parse_constraint(line)
    assert (found.kind, found.options) == (kind, options)


@pytest.mark.parametrize(
    "line", ["max_lines: many", "max_files:", "forbid_pattern: regex=(a+)+b", "dependency: name=x", "max_line: max=3"]
)
def test_a_line_that_names_a_kind_has_to_be_one(line: str) -> None:
    with pytest.raises(InvalidConstraint):
        parse_constraint(line)
