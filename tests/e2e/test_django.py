"""A fresh Django project from PyPI with SQLite: the daily loop of its commands, contained, under an intent that owns
none of it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.test_runtime_data import contained, trust_data
from gate.driving import INTENTS, governed, overlay

MADE = "from django.contrib.auth.models import User; User.objects.create_user('ann'); print(User.objects.count())"


@pytest.fixture
def django(tmp_path: Path) -> Path:
    """The interpreter of an environment with the newest Django."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", place], check=True)
    done = subprocess.run([place / "bin" / "python", "-m", "pip", "install", "-q", "django"], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"DJANGO IS NOT TESTED: the registry gives none here: {done.stderr.decode()[-200:]}")
    return place / "bin" / "python"


@pytest.mark.live
@pytest.mark.parametrize("server", ["none", "running"])
def test_migrate_shell_and_dumpdata_keep_the_database_under_any_intent(
    django: Path, repository: Path, home: Path, server: str
) -> None:
    overlay(home)
    subprocess.run([django, "-m", "django", "startproject", "shop", repository], check=True)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "a project")
    governed(repository, intents=INTENTS)
    (home / "tmp").mkdir(exist_ok=True)
    trust_data(repository, home, ["db.sqlite3"])
    if server == "running":
        # What `runserver` leaves before the first migration: an empty database.
        (repository / "db.sqlite3").touch()

    assert "kept: db.sqlite3 (runtime data, " in contained(repository, f"{django} manage.py migrate -v0")
    assert "kept: db.sqlite3 (runtime data, " in contained(repository, f'{django} manage.py shell -v0 -c "{MADE}"')
    said = contained(repository, f"{django} manage.py dumpdata auth.user > src/users.json")
    assert "db.sqlite3" not in said
    [user] = json.loads((repository / "src" / "users.json").read_text())
    assert user["fields"]["username"] == "ann"
    run_git(repository, "status", "--porcelain")
