"""What files import, resolved to files of the repository."""

import pytest

from remit_fleet.planning.imports import ImportResolver, list_imported_modules

FILES = [
    *("src/app/__init__.py", "src/app/core/scope.py", "src/app/views.py", "tests/test_views.py", "json.py"),
    *("web/src/a.ts", "web/src/b/index.tsx", "web/src/c.js"),
    *("pkg/store/db.go", "pkg/store/rows.go", "cmd/main.go"),
    *("java/src/main/java/org/x/A.java", "java/src/main/java/org/x/B.java"),
    *("crate/src/lib.rs", "crate/src/net/mod.rs", "crate/src/net/tls.rs"),
    *("lib/a.c", "include/lib/a.h", "lib/local.h"),
]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "tests/test_views.py",
            "from app.core import scope\nimport json\nimport os",
            ["src/app/core/scope.py", "json.py"],
        ),
        ("src/app/views.py", "from app.core.scope import (\n    Scope,\n    other,\n)", ["src/app/core/scope.py"]),
        ("src/app/core/scope.py", "from ..views import x\nfrom .. import views", ["src/app/views.py"]),
        ("src/app/views.py", 'text = "from app.core.scope import x"', []),
        (
            "web/src/a.ts",
            'import {\n  x,\n  y\n} from "./b"\nexport * from "./c"',
            ["web/src/b/index.tsx", "web/src/c.js"],
        ),
        ("web/src/c.js", 'const a = require("./a"); import React from "react"', ["web/src/a.ts"]),
        (
            "cmd/main.go",
            'import (\n  "fmt"\n  "example.org/app/pkg/store"\n)',
            ["pkg/store/db.go", "pkg/store/rows.go"],
        ),
        (
            "java/src/main/java/org/x/A.java",
            "import org.x.B;\nimport java.util.List;",
            ["java/src/main/java/org/x/B.java"],
        ),
        (
            "crate/src/lib.rs",
            "use crate::net::tls::Stream;\nuse std::io;",
            ["crate/src/net/tls.rs", "crate/src/net/mod.rs"],
        ),
        ("lib/a.c", '#include "local.h"\n#include "lib/a.h"\n#include <stdio.h>', ["lib/local.h", "include/lib/a.h"]),
        ("README.md", "import app.core.scope", []),
        ("src/app/views.py", "\x00\xff from import (((", []),
    ],
)
def test_imports_lead_to_files(path: str, text: str, expected: list[str]) -> None:
    assert list(ImportResolver(FILES).resolve(path, list_imported_modules(path, text))) == expected
