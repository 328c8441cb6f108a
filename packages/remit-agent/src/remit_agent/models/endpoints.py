"""Endpoints of models: the address and the key of `PROVIDER:NAME`."""

from collections.abc import Mapping

from msgspec import Struct

from remit_agent.models.extra import name_missing_extra

EXAMPLE_MODEL = "anthropic:claude-sonnet-5-5"


def name_family(model: str) -> str:
    """Return whose model this is: a cloud serves models of several makers."""
    provider, _, name = model.partition(":")
    return "anthropic" if "claude" in name else provider.partition("-")[0]


class ProviderRow(Struct, frozen=True):
    """A provider: the variables with the key and the address; the first variable set counts.

    `must_have_key` is False for an address without a key, or with the cloud's own credentials, which `login` names.
    """

    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    default_url: str = ""
    must_have_key: bool = True
    login: str = ""


PROVIDERS: dict[str, ProviderRow] = {
    "anthropic": ProviderRow(("ANTHROPIC_API_KEY",), ("ANTHROPIC_BASE_URL",), "https://api.anthropic.com"),
    "openai": ProviderRow(("OPENAI_API_KEY",), ("OPENAI_BASE_URL",), "https://api.openai.com/v1"),
    "openai-compatible": ProviderRow(
        ("OPENAI_COMPATIBLE_API_KEY",), ("OPENAI_COMPATIBLE_BASE_URL",), must_have_key=False
    ),
    "vllm": ProviderRow(("VLLM_API_KEY",), ("VLLM_BASE_URL",), "http://127.0.0.1:8000/v1", must_have_key=False),
    "ollama": ProviderRow(("OLLAMA_API_KEY",), ("OLLAMA_BASE_URL",), "http://127.0.0.1:11434/v1", must_have_key=False),
    "google": ProviderRow(
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"), ("GOOGLE_GEMINI_BASE_URL",), "https://generativelanguage.googleapis.com"
    ),
    "vertex": ProviderRow(
        must_have_key=False,
        login="run `gcloud auth application-default login`, and set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION",
    ),
    "bedrock": ProviderRow(must_have_key=False, login="run `aws configure`, and set AWS_REGION"),
}
"""`vertex` and `bedrock` take the credentials of Google's and Amazon's own tools, and a project or region from
GOOGLE_CLOUD_PROJECT, GOOGLE_CLOUD_LOCATION, AWS_REGION."""


class NoSuchModel(ValueError):
    """A model's name that no provider can be opened for."""

    def __init__(self, model_id: str, fault: str) -> None:
        super().__init__(
            f"{model_id!r} {fault}\n"
            f"hint: expected PROVIDER:NAME, as in {EXAMPLE_MODEL}; providers: {', '.join(PROVIDERS)}"
        )
        self.model_id = model_id


class NoKey(Exception):
    """A provider without a key, or without an address."""

    def __init__(self, provider: str, names: tuple[str, ...], what: str = "key") -> None:
        keyring = f", or store it: remit run --set-key {provider}" if what == "key" else ""
        super().__init__(f"there is no {what} for {provider}\nhint: set {' or '.join(names)}{keyring}")
        self.provider = provider


class ModelNotOpened(Exception):
    """A provider's own library could not make a client for the model."""

    def __init__(self, model_id: str, cause: str) -> None:
        row = PROVIDERS[model_id.partition(":")[0]]
        hint = row.login or f"check {' and '.join(row.urls + row.keys)}"
        super().__init__(f"{model_id!r} cannot be opened: {cause}\nhint: {hint}")


class Endpoint(Struct, frozen=True):
    """A model with the address and key to reach the model. The key is in no text of the structure."""

    provider: str
    name: str
    url: str = ""
    key: str | None = None
    project: str | None = None
    region: str | None = None

    @property
    def model_id(self) -> str:
        return f"{self.provider}:{self.name}"

    def __repr__(self) -> str:
        return f"Endpoint({self.model_id!r}, {self.url!r})"


def find_endpoint(model_id: str, variables: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of `PROVIDER:NAME`. Raises NoSuchModel, NoKey."""
    provider, _, name = model_id.partition(":")
    row = PROVIDERS.get(provider)
    if row is None:
        raise NoSuchModel(model_id, "names no known provider")
    if not name.strip() or not name.isprintable():
        raise NoSuchModel(model_id, "names no model")
    url = next(filter(None, (variables.get(variable, "") for variable in row.urls)), row.default_url)
    if row.urls and not url:
        raise NoKey(provider, row.urls, "address")
    key = find_key(provider, row.keys, variables)
    if key is None and row.must_have_key:
        raise NoKey(provider, row.keys)
    return Endpoint(
        provider,
        name,
        url,
        key,
        variables.get("GOOGLE_CLOUD_PROJECT") if provider == "vertex" else None,
        _find_region(provider, variables),
    )


def _find_region(provider: str, variables: Mapping[str, str]) -> str | None:
    if provider == "vertex":
        return variables.get("GOOGLE_CLOUD_LOCATION")
    return variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") if provider == "bedrock" else None


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
