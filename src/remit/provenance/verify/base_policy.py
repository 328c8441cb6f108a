"""The policy by which a range of commits is judged: that of the commit which it starts from.

A range that brings its own `remit.toml` or intents file must not loosen its own verdict.
"""

from collections.abc import Mapping

from msgspec import Struct

from remit.core.config import Config
from remit.core.intent import Intent
from remit.workspace.git.command import Git
from remit.workspace.place.config import ConfigError, decode_toml
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

GIT_ABSENT = 128
"""git's exit code where a commit has no such file."""


class BasePolicy(Struct, frozen=True):
    """The policy files at `commit`, which is empty where the range starts at no commit.

    `config` and `intents` are None where the base does not track that file. `brings` names those of them that only
    the range tracks.
    """

    commit: str = ""
    config: Config | None = None
    config_text: str | None = None
    config_error: str | None = None
    intents: Mapping[str, Intent] | None = None
    brings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The policy in words, for messages."""
        return f"the base {self.commit[:12]}" if self.commit else "the intents file"


def read_base_policy(git: Git, wanted: str, base: str | None) -> BasePolicy:
    """The policy at `base`, or else at the commit that the range `wanted` starts from. Raises GitError."""
    tip, start = resolve_range(git, wanted)
    commit = start if base is None else git.text("rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")
    config_text = read_tracked_file(git, commit, "remit.toml")
    intents_text = read_tracked_file(git, commit, "active_intents.yaml")
    texts = {"remit.toml": config_text, "active_intents.yaml": intents_text}
    brings = tuple(
        name for name, text in texts.items() if text is None and read_tracked_file(git, tip, name) is not None
    )
    config, error = None, None
    try:
        config = None if config_text is None else decode_toml(config_text, Config)
    except ConfigError as broken:
        error = f"{ORCHESTRATION_FOLDER}/remit.toml of the base cannot be used: {broken}"
    intents = None if intents_text is None else parse_intents_by_id(intents_text)
    text = None if config_text is None else config_text.decode("utf-8", "replace")
    return BasePolicy(commit, config, text, error, intents, brings)


def parse_intents_by_id(content: bytes) -> dict[str, Intent]:
    """The intents of an intents file, by id."""
    from remit.workspace.intents_file.parse import parse_intents  # a YAML parser, for those who ask for a verification

    return {intent.id: intent for intent in parse_intents(content).intents}


def resolve_range(git: Git, wanted: str) -> tuple[str, str]:
    """The newest commit of a range, and the one that it starts from: its merge base, or a single commit's parent.

    The latter is empty where there is none. Raises GitError.
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
    """The policy file of that name in a commit; None where the commit does not track it. Raises GitError."""
    if not commit:
        return None
    listed = git.text("ls-tree", commit, "--", f"{ORCHESTRATION_FOLDER}/{name}")
    return git.run("cat-file", "blob", listed.split()[2]) if " blob " in listed else None
