"""Each host signs with a key of its own; on either, `remit verify` says whose a log is, and which key is unknown."""

from pathlib import Path

from fleet.clones import Clone, make_clones
from fleet.test_remote import work
from gate.driving import Agent
from remit.core.tree_head import derive_public_key, format_verifier_key
from remit.gate.records.check_logs import describe_shared_logs
from remit.gate.records.tree_heads import make_head, read_private_key
from remit.ledger.foreign_logs import FOREIGN_FOLDER


def key_of(clone: Clone) -> str:
    return format_verifier_key(clone.gate.recorder.log.name, derive_public_key(read_private_key(clone.home)))


def test_a_log_names_its_key_until_it_is_trusted_and_then_it_is_proved_by_it(tmp_path: Path, home: Path) -> None:
    a, b, _ = make_clones(tmp_path, 1)
    b.hand_in("INT-001", 1, work("INT-001"))
    Agent(a.root, a.home, "s-a").send("SessionStart", source="startup")
    for clone in (a, b):
        make_head(clone.gate.recorder, whole=True)
        clone.remote.share_log()
    for here, there in ((a, b), (b, a)):
        here.remote.fetch_logs()
        name, key = there.gate.recorder.log.name, key_of(there)
        (said,) = describe_shared_logs(here.gate.recorder, here.gate.rules.config)
        assert f"of the log {name} are another machine's, and they are unproved" in said
        assert f"signed by {key.split('+')[1]}, which is not trusted here; `remit ledger key` there" in said
        here.change_settings(f'[ledger]\ntrusted_keys = ["{key}"]\n')
        (said,) = describe_shared_logs(here.gate.recorder, here.gate.rules.config)
        assert said.endswith(
            f"of the log {name} are another machine's, signed by {key.split('+')[1]}, which is trusted here"
        )


def test_a_shared_log_that_was_altered_after_it_was_signed_is_named(tmp_path: Path, home: Path) -> None:
    a, b, _ = make_clones(tmp_path, 1)
    b.hand_in("INT-001", 1, work("INT-001"))
    make_head(b.gate.recorder, whole=True)
    b.remote.share_log()
    a.remote.fetch_logs()
    a.change_settings(f'[ledger]\ntrusted_keys = ["{key_of(b)}"]\n')
    (file,) = (a.gate.workspace.log_folder / FOREIGN_FOLDER).glob("ref-*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"INT-001", b"INT-009"))
    (said,) = describe_shared_logs(a.gate.recorder, a.gate.rules.config)
    assert "and not as they were signed" in said
