"""Keys of providers: from variables passed in by the caller, or from the system's keyring."""

from collections.abc import Mapping

from remit_agent.models.extra import name_missing_extra

KEYRING_SERVICE = "remit"


class KeyringFailed(Exception):
    """The system's keyring could not keep or give a key."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the system's keyring does not work: {cause}\nhint: set the provider's variable instead")


def find_key(provider: str, names: tuple[str, ...], variables: Mapping[str, str]) -> str | None:
    """Return the key from the first set variable of `names`, or from the keyring, or None."""
    for name in names:
        if key := variables.get(name, "").strip():
            return key
    return read_keyring(provider) if names else None


def read_keyring(provider: str) -> str | None:
    """Return the stored key of a provider. A machine without a keyring, or a locked one, has none."""
    try:
        import keyring  # slow, and only needed without a variable
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        return None
    try:
        return keyring.get_password(KEYRING_SERVICE, provider) or None
    except KeyringError:
        return None


def store_key(provider: str, key: str) -> None:
    """Keep a key in the keyring. Raises ExtraMissing, KeyringFailed."""
    with name_missing_extra():
        import keyring
        from keyring.errors import KeyringError
    try:
        keyring.set_password(KEYRING_SERVICE, provider, key)
    except KeyringError as error:
        raise KeyringFailed(str(error) or type(error).__name__) from error
