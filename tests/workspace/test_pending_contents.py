"""Contents wait whole, or not at all; whoever adds or takes at the same time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.contents import hash_git_blob
from remit.workspace.contents.content_store import PendingContents

ODD = [b"", b"\n", b"a" * 70_000, b"\0\xff", b"0" * 40 + b" 1 0\nx\n"]


def entry(content: bytes, path: bytes = b"src/a.py") -> tuple[str, bytes, bytes]:
    return hash_git_blob(content), path, content


def test_what_was_added_is_found_by_whoever_opens_the_file(tmp_path: Path) -> None:
    PendingContents(tmp_path / "new" / "w").add([entry(content, b"a\nb \xff") for content in ODD])
    other = PendingContents(tmp_path / "new" / "w")
    assert [other.read_content(hash_git_blob(content)) for content in ODD] == ODD
    assert {each.path for each in other.list_entries()} == {b"a\nb \xff"}


def test_nothing_waits_where_nothing_was_added(tmp_path: Path) -> None:
    waits = PendingContents(tmp_path / "w")
    assert (waits.read_content(hash_git_blob(b"x")), waits.list_entries()) == (None, [])


def test_the_same_content_at_the_same_place_is_written_once(tmp_path: Path) -> None:
    waits = PendingContents(tmp_path / "w")
    for path in (b"a", b"a", b"b"):
        waits.add([entry(b"x", path)])
    assert [each.path for each in waits.list_entries()] == [b"a", b"b"]


def test_what_was_sealed_is_elsewhere_and_what_comes_after_begins_another_file(tmp_path: Path) -> None:
    waits, other = PendingContents(tmp_path / "w"), PendingContents(tmp_path / "w")
    sealed = PendingContents(tmp_path / "sealed")
    waits.add([entry(b"one"), entry(b"two")])
    assert other.read_content(hash_git_blob(b"two")) == b"two"
    other.seal(sealed.path)
    assert (waits.read_content(hash_git_blob(b"one")), sealed.read_content(hash_git_blob(b"one"))) == (None, b"one")
    waits.add([entry(b"three")])
    assert other.read_content(hash_git_blob(b"three")) == b"three"
    sealed.remove([])
    assert (sealed.list_entries(), sealed.path.exists()) == ([], False)
    other.seal(sealed.path)
    other.seal(sealed.path)  # nothing waits
    assert sealed.read_content(hash_git_blob(b"three")) == b"three"


@given(cut=st.integers(1, 200))
def test_a_torn_tail_hides_nothing_before_it_and_is_set_aside(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    waits = PendingContents(folder / "w")
    waits.add([entry(b"whole")])
    end = (folder / "w").stat().st_size
    waits.add([entry(b"t" * 200)])
    os.truncate(folder / "w", end + cut)
    other = PendingContents(folder / "w")
    assert (other.read_content(hash_git_blob(b"whole")), other.read_content(hash_git_blob(b"t" * 200))) == (
        b"whole",
        None,
    )
    other.add([entry(b"after")])
    assert PendingContents(folder / "w").read_content(hash_git_blob(b"after")) == b"after"
    assert [len(aside.read_bytes()) for aside in (folder / "torn").iterdir()] == [cut]


ADD_MANY = """
import sys
from pathlib import Path
from remit.core.diff.contents import hash_git_blob
from remit.workspace.contents.content_store import PendingContents
waits, start = PendingContents(Path(sys.argv[1])), int(sys.argv[2])
for n in range(start, start + 200):
    waits.add([(hash_git_blob(b"%d" % n), b"src/a.py", b"%d" % n)])
"""


def test_writers_and_a_taker_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "w"
    writers = [subprocess.Popen([sys.executable, "-c", ADD_MANY, path, str(1000 * n)]) for n in range(1, 4)]
    taken: set[str] = set()
    taker, sealed = PendingContents(path), PendingContents(tmp_path / "sealed")
    while any(writer.poll() is None for writer in writers) or taker.list_entries():
        taker.seal(sealed.path)
        taken |= {each.blob for each in sealed.list_entries()}
        if sealed.path.exists():
            sealed.remove([])
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert taken == {hash_git_blob(b"%d" % (1000 * n + m)) for n in range(1, 4) for m in range(200)}


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "w").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        PendingContents(tmp_path / "w").add([entry(b"x")])
    assert (tmp_path / "other").read_bytes() == b""
