"""What looks like runtime data is found: by its content, and by the settings that name it before it exists."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import governed
from remit.core.config import ContainmentRules
from remit.core.runtime_data import DataPatterns
from remit.gate.facts.runtime_data import find_proposals
from remit.workspace.place.workspace import find_git_root, workspace_at

DJANGO = """\
BASE_DIR = Path(__file__).resolve().parent.parent
DATABASES = {
    'default': {
        'ENGINE': 'django.db.backends.sqlite3',
        'NAME': %s,
    }
}
MEDIA_ROOT = %s
"""


def proposed(root: Path, named: tuple[str, ...] = ()) -> list[str]:
    governed(root)
    return [each.pattern for each in find_proposals(workspace_at(root, find_git_root(root)), named)]


def put(root: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())


def database(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE t (n)")


@pytest.mark.parametrize(
    ("name", "media"),
    [
        ("BASE_DIR / 'db.sqlite3'", "BASE_DIR / 'media'"),
        ("os.path.join(BASE_DIR, 'db.sqlite3')", "os.path.join(BASE_DIR, 'media')"),
        ("str(BASE_DIR / 'db.sqlite3')", "'media/'"),
    ],
)
def test_the_settings_of_django_name_a_database_that_is_not_there_yet(repository: Path, name: str, media: str) -> None:
    put(repository, {"manage.py": "", "shop/settings.py": DJANGO % (name, media)})
    assert proposed(repository) == ["db.sqlite3", "media/**"]
    put(repository, {"back/manage.py": "", "back/shop/settings/dev.py": DJANGO % (name, media)})
    assert {"back/db.sqlite3", "back/media/**"} <= {*proposed(repository)}


def test_rails_and_prisma_name_theirs(repository: Path) -> None:
    put(
        repository,
        {
            "config/database.yml": "development:\n  adapter: sqlite3\n  database: storage/development.sqlite3\n",
            "web/prisma/schema.prisma": 'datasource db {\n  provider = "sqlite"\n  url      = "file:./dev.db"\n}\n',
            "api/prisma/schema.prisma": 'datasource db {\n  url = env("DATABASE_URL")\n}\n',
            "api/.env": 'DATABASE_URL="file:./local.db?mode=rw"\n',
        },
    )
    assert proposed(repository) == ["api/prisma/local.db", "storage/development.sqlite3", "web/prisma/dev.db"]


def test_databases_are_found_by_content_and_folders_by_name(repository: Path) -> None:
    for path in ("instance/app.db", "a/b/c/d/deep.sqlite3", "node_modules/x/x.sqlite3", "storage/dev.sqlite3"):
        database(repository / path)
    database(repository / "fixture.sqlite3")
    run_git(repository, "add", "fixture.sqlite3")
    put(repository, {"thumbs.db": "no database", "dump.rdb": b"REDIS0011", "pg/PG_VERSION": "17\n"})
    put(repository, {"media/.gitkeep": "", "var/code.py": "x"})
    run_git(repository, "add", "media/.gitkeep", "var/code.py")
    assert proposed(repository) == ["storage/**", "media/**", "pg/**", "dump.rdb", "instance/app.db"]
    assert proposed(repository, ("storage/**", "instance/app.db", "dump.rdb")) == ["media/**", "pg/**"]


def test_a_link_and_a_place_outside_are_not_proposed(repository: Path, tmp_path: Path) -> None:
    put(repository, {"manage.py": "", "shop/settings.py": DJANGO % ("'/var/lib/db.sqlite3'", "'../media'")})
    database(tmp_path / "elsewhere.sqlite3")
    (repository / "media").symlink_to(tmp_path)
    assert proposed(repository) == []


REFUSED = """
** * **/* */** src/** [s]rc/** {src,lib}/** app/** *.py **/*.py foo/*.py foo/*.{py,rb} models.py *.json .git/**
.git/hooks/x .orchestration/** .*/** .envrc foo/Makefile foo/conftest.py .vscode/** .claude/** .env* *.env foo/*.so
foo/.husky/x docs/** tests/** foo/*.pyc
""".split()  # noqa: SIM905
TAKEN = """
db.sqlite3 *.sqlite3 **/*.sqlite3 storage/*.sqlite3 media/** storage/** var/** dump.rdb .env prisma/dev.db data/*.db
app/data/*.sqlite3 src/db.sqlite3 !media/raw/**
""".split()  # noqa: SIM905


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_reaches_code_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\[containment\] data"):
        ContainmentRules(data=(pattern,))


def test_patterns_of_data_are_taken_and_cover_what_stands_beside_a_database() -> None:
    assert ContainmentRules(data=tuple(TAKEN)).data == tuple(TAKEN)
    data = DataPatterns(("db.sqlite3", "media/**", ".env"))
    covered = ["db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm", "db.sqlite3-journal", "media/a/b.png", ".env"]
    others = ["db.sqlite3.py", "db.sqlite3-wal-wal", "media/x.py", "media/.envrc", "media/.env", "media/.git/config"]
    others += ["media/id_rsa", "media/__pycache__/x.pyc", "media/.vscode/x", "media/lib.so", "other.sqlite3"]
    assert [path for path in (*covered, *others) if data.covers(path)] == covered
