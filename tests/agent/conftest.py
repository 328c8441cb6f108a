"""Keyrings of the tests: one in memory, and none."""

from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring


class MemoryKeyring(KeyringBackend):
    """A keyring that forgets at the end."""

    priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride, reportUnannotatedClassAttribute]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


def use_keyring(backend: KeyringBackend) -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    yield
    keyring.set_keyring(before)


@pytest.fixture
def memory_keyring() -> Iterator[None]:
    yield from use_keyring(MemoryKeyring())


@pytest.fixture
def no_keyring() -> Iterator[None]:
    yield from use_keyring(NoKeyring())
