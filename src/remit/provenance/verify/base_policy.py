"""Policy at the commit where a range starts.

A range with its own `remit.toml` or intents file must not loosen its own verdict.
"""

from collections.abc import Mapping

from msgspec import Struct

from remit.core.config import Config
from remit.core.intent import Intent
from remit.workspace.git.command import Git
from remit.workspace.place.config import ConfigError, decode_toml
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

GIT_ABSENT = 128
"""Exit code of git for a file missing from a commit."""


class BasePolicy(Struct, frozen=True):
    """Policy files at `commit`, which is empty if the range starts at no commit.

    `config` and `intents` are None if the base does not track the file. `brings` names files that only the range
    tracks.
    """

    commit: str = ""
    config: Config | None = None
    config_text: str | None = None
    config_error: str | None = None
    intents: Mapping[str, Intent] | None = None
    brings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The policy's title in messages."""
        return f"the base {self.commit[:12]}" if self.commit else "the intents file"


def read_base_policy(git: Git, wanted: str, base: str | None) -> BasePolicy:
    """Read the policy at `base`, else at the start of the range `wanted`. Raises GitError."""
    tip, start = resolve_range(git, wanted)
    commit = start if base is None else git.text("rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")
    config_bytes = read_tracked_file(git, commit, "remit.toml")
    intents_bytes = read_tracked_file(git, commit, "active_intents.yaml")
    texts = {"remit.toml": config_bytes, "active_intents.yaml": intents_bytes}
    brings = tuple(
        name
        for name, config_text in texts.items()
        if config_text is None and read_tracked_file(git, tip, name) is not None
    )
    config, error = None, None
    try:
        config = None if config_bytes is None else decode_toml(config_bytes, Config)
    except ConfigError as invalid:
        error = f"{ORCHESTRATION_FOLDER}/remit.toml of the base cannot be used: {invalid}"
    intents = None if intents_bytes is None else parse_intents_by_id(intents_bytes)
    config_text = None if config_bytes is None else config_bytes.decode("utf-8", "replace")
    return BasePolicy(commit, config, config_text, error, intents, brings)


def parse_intents_by_id(content: bytes) -> dict[str, Intent]:
    # Imported here for start-up speed: loads a YAML parser.
    from remit.workspace.intents_file.parse import parse_intents

    return {intent.id: intent for intent in parse_intents(content).intents}


def resolve_range(git: Git, wanted: str) -> tuple[str, str]:
    """Return the newest commit of a range, and its start: the merge base, or a single commit's parent; empty if
    missing. Raises GitError.
    """
    names = git.text("rev-parse", "--revs-only", "--end-of-options", wanted).split()
    tips = [name for name in names if not name.startswith("^")]
    excluded = [name[1:] for name in names if name.startswith("^")]
    if not tips:
        return "", ""
    if not excluded:
        return tips[0], git.text("rev-parse", "--verify", "--quiet", f"{tips[0]}^", ok=(0, 1, 128))
    return tips[0], git.text("merge-base", excluded[0], tips[0], ok=(0, 1))


def read_tracked_file(git: Git, commit: str, name: str) -> bytes | None:
    """Return the policy file of a commit; None if not tracked. Raises GitError."""
    if not commit:
        return None
    listed = git.text("ls-tree", commit, "--", f"{ORCHESTRATION_FOLDER}/{name}")
    return git.run("cat-file", "blob", listed.split()[2]) if " blob " in listed else None
