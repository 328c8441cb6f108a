"""`[orchestrator]` of remit.toml: what is taken, and what is refused by name."""

import re

import msgspec
import pytest

from remit.core.config import Config, OrchestratorSettings
from remit.workspace.place.config import ConfigError, decode_toml
from remit_fleet.planning.roles import RoleError, find_role, list_roles


def read(text: str) -> OrchestratorSettings:
    return decode_toml(text.encode(), Config).orchestrator


def test_nothing_is_needed() -> None:
    settings = read("")
    assert (settings.target, settings.workers, settings.train, settings.attempts) == ("remit/next", 4, 8, 3)
    assert list(list_roles(settings)) == ["architect", "builder", "tester", "reviewer"]


def test_everything_can_be_said() -> None:
    settings = read(
        """
        [orchestrator]
        target = "main"
        workers = 2
        links = ["node_modules", ".venv"]
        commons = [{paths = ["uv.lock"], make = "uv lock"}, {paths = ["CHANGELOG.md"], fragments = "changelog.d/"}]
        weights = {changes = 1.0, imports = 0}
        [[orchestrator.roles]]
        name = "builder"
        agent = ["claude-code", "codex"]
        max_usd = 1.5
        chain = ["tester", "security"]
        [[orchestrator.roles]]
        name = "security"
        paths = []
        effects = ["read"]
        """
    )
    assert find_role(settings, "builder").chain == ("tester", "security")
    assert find_role(settings, "security").paths == ()
    assert list(list_roles(settings)) == ["architect", "builder", "tester", "reviewer", "security"]
    (item,) = settings.trust_items
    assert "uv lock" in item.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[orchestrator]\nworker = 3", "unknown field `worker`"),
        ("[[orchestrator.roles]]\nname = 'x'\npath = []", "unknown field `path`"),
        ("[orchestrator]\nworkers = 0", "expected 1 to 64, not 0"),
        ("[orchestrator]\nworkers = 65", "expected 1 to 64, not 65"),
        ("[orchestrator]\ntrain = 0", "train: expected 1 or more"),
        ("[orchestrator]\nstall_s = inf", "stall_s: expected 1 or more"),
        ("[orchestrator]\ntarget = '../x'", "no name of a branch"),
        ("[orchestrator]\ntarget = '-f'", "no name of a branch"),
        ("[orchestrator]\nlinks = ['../secrets']", "cannot be used"),
        ("[orchestrator]\nlinks = ['/etc']", "absolute"),
        ("[orchestrator]\ncommons = [{paths = ['a']}]", "either `make` or `fragments`"),
        ("[orchestrator]\ncommons = [{paths = ['a'], make = 'x', fragments = 'y'}]", "either `make` or `fragments`"),
        ("[orchestrator]\ncommons = [{paths = [], make = 'x'}]", "expected `paths`"),
        ("[orchestrator]\ncommons = [{paths = ['!a'], make = 'x'}]", "it excludes"),
        ("[[orchestrator.roles]]\nname = 'Builder X'", "is no name"),
        ("[[orchestrator.roles]]\nname = 'a'\n[[orchestrator.roles]]\nname = 'a'", "stands twice"),
        ("[[orchestrator.roles]]\nname = 'a'\npaths = ['[']", "never closed"),
        ("[[orchestrator.roles]]\nname = 'a'\nmax_usd = 0", "max_usd: expected a number above 0"),
        ("[[orchestrator.roles]]\nname = 'a'\nchain = ['a']", "cannot follow itself"),
        ("[[orchestrator.roles]]\nname = 'a'\neffects = ['fly']", "fly"),
        ("[orchestrator.weights]\nchanges = 2", "expected 0 to 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(text)


def test_roles_that_nobody_knows_are_named_with_those_that_are() -> None:
    with pytest.raises(RoleError, match=r"no role 'poet'; the roles are architect, builder"):
        find_role(OrchestratorSettings(), "poet")
    settings = msgspec.convert({"roles": [{"name": "a", "chain": ["poet"]}]}, OrchestratorSettings)
    with pytest.raises(RoleError, match="in the chain of a"):
        list_roles(settings)
