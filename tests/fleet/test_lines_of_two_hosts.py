"""Every line that twenty intents wrote on two hosts keeps its intent on both, merged and squashed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_git
from fleet.clones import Clone, make_clones
from remit.provenance.blame.blame import Blamer

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]
INTENTS = 20


def work(clone: Clone, id: str) -> dict[str, str]:
    """A file with lines changed, added and kept, and a new one."""
    folder, name = f"src/{id.lower()}", id.lower().replace("-", "_")
    old = run_git(clone.root, "show", f"main:{folder}/old.py").splitlines(keepends=True)
    old[3:5] = [f"changed_{name}_{k} = compute_part({k}, {name!r})\n" for k in range(4)]
    new = "".join(f"def {name}_{k}():\n    return {k} * {name}_factor\n\n\n" for k in range(4))
    return {f"{folder}/old.py": "".join(old), f"{folder}/new.py": new}


def blame(clone: Clone, path: str, target: str) -> Iterator[tuple[str, str | None]]:
    with clone.gate.index() as index:
        for line in Blamer(clone.gate.workspace, index, clone.gate.contents).blame(path, [target]):
            yield line.content, line.intent_id


def test_every_line_keeps_its_intent_on_both_hosts(tmp_path: Path, home: Path) -> None:
    a, b, ids = make_clones(tmp_path, INTENTS)
    written = {id: work(a, id) for id in ids}
    members = [(b if number % 2 else a).hand_in(id, 1, written[id]) for number, id in enumerate(ids)]
    before = {
        path: run_git(a.root, "show", f"main:{path}") for files in written.values() for path in files if "old" in path
    }
    assert list(a.land(*members, target="remit/merge").landed) == ids
    a.change_settings('form = "squash"\n')
    assert list(a.land(*members, target="remit/squash").landed) == ids
    for target in ("remit/merge", "remit/squash"):
        b.remote.follow_target(target)
    b.remote.fetch_logs()
    lines, wrong = 0, list[tuple[str, str, str | None]]()
    for clone in (a, b):
        for target in ("remit/merge", "remit/squash"):
            for id, files in written.items():
                for path, content in files.items():
                    found = list(blame(clone, path, f"refs/heads/{target}"))
                    assert [text for text, _ in found] == content.splitlines()
                    old = before.get(path, "").splitlines()
                    wrong += [(path, text, to) for text, to in found if to != (None if text in old else id)]
                    lines += sum(text not in old for text, _ in found)
    print(f"{lines} lines of {INTENTS} intents, {len(wrong)} wrong")
    assert wrong == []
    assert lines == INTENTS * 20 * 4
