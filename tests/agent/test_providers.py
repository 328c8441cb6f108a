"""Names, keys, windows and prices of models, and what is said where the extra is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from remit_agent.models.endpoints import (
    PROVIDERS,
    Endpoint,
    KeyringFailed,
    NoKey,
    NoSuchModel,
    find_endpoint,
    find_key,
    read_keyring,
    store_key,
)
from remit_agent.models.extra import ExtraMissing, name_missing_extra
from remit_agent.models.library import find_window, price_usage
from remit_agent.models.providers import open_provider

pytestmark = pytest.mark.system  # the first keyring of a process looks for libraries


class Tokens(Struct, frozen=True):
    """Usage in the attributes of genai-prices."""

    input_tokens: int = 1_000_000
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@pytest.mark.parametrize("name", ["", "anthropic", "anthropic:", "nobody:m", ":m", "anthropic:a\nb", "Anthropic:m"])
def test_a_name_without_provider_or_model_is_refused_with_the_form_that_is_expected(name: str) -> None:
    with pytest.raises(NoSuchModel, match="expected PROVIDER:NAME"):
        find_endpoint(name, {"ANTHROPIC_API_KEY": "k"})


def test_a_key_comes_from_the_variables_that_are_passed_in() -> None:
    found = find_endpoint("google:gemini-3:beta", {"GEMINI_API_KEY": " k \n"})
    assert (found.name, found.key) == ("gemini-3:beta", "k")
    assert found.model_id == "google:gemini-3:beta"
    assert "k" not in repr(Endpoint("anthropic", "m", "u", "k"))[len("Endpoint('anthropic:m'") :]


@pytest.mark.usefixtures("no_keyring")
def test_a_missing_key_names_the_variables_and_the_command_that_stores_one() -> None:
    with pytest.raises(NoKey) as raised:
        find_endpoint("anthropic:m", {"OPENAI_API_KEY": "of another"})
    assert str(raised.value) == (
        "there is no key for anthropic\nhint: set ANTHROPIC_API_KEY, or store it: remit run --set-key anthropic"
    )


def test_an_own_server_needs_an_address_and_no_key() -> None:
    with pytest.raises(NoKey, match="no address for openai-compatible\nhint: set OPENAI_COMPATIBLE_BASE_URL"):
        find_endpoint("openai-compatible:m", {})
    assert find_endpoint("ollama:qwen3", {}).url == "http://127.0.0.1:11434/v1"
    # The key of OpenAI goes to OpenAI only.
    assert find_endpoint("vllm:m", {"OPENAI_API_KEY": "k"}).key is None


def test_a_cloud_takes_its_place_from_its_own_variables() -> None:
    vertex = find_endpoint("vertex:gemini-3", {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"})
    assert (vertex.project, vertex.region) == ("p", "global")
    assert find_endpoint("bedrock:anthropic.claude", {"AWS_DEFAULT_REGION": "eu-west-1"}).region == "eu-west-1"


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name not in ("vertex", "bedrock")])
def test_every_provider_opens(provider: str) -> None:
    row = PROVIDERS[provider]
    model = open_provider(f"{provider}:m-1", {row.keys[0]: "dummy", row.urls[0]: "http://127.0.0.1:9/v1"})
    assert model.id == f"{provider}:m-1"
    assert model.window is None


def test_vertex_opens_with_a_project() -> None:
    assert (
        open_provider("vertex:gemini-3-pro", {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "eu"}).id
        == "vertex:gemini-3-pro"
    )


def test_bedrock_says_which_extra_brings_its_sdk() -> None:
    code = (
        "import sys; sys.modules['boto3'] = sys.modules['botocore'] = None\n"
        "from remit_agent.models.providers import open_provider\n"
        "open_provider('bedrock:m', {'AWS_REGION': 'eu-west-1'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "botocore is not installed" in done.stderr
    assert "uv tool install '.[agent-bedrock]', or pip install . './packages/remit-agent[bedrock]'" in done.stderr


@pytest.mark.parametrize(
    ("package", "act"),
    [
        (
            "pydantic_ai",
            "from remit_agent.models.providers import *; open_provider('openai:m', {'OPENAI_API_KEY': 'k'})",
        ),
        ("keyring", "from remit_agent.models.endpoints import store_key; store_key('openai', 'k')"),
    ],
)
def test_without_the_extra_the_command_that_installs_it_is_named(package: str, act: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; {act}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        f"ExtraMissing: {package} is not installed\nhint: in Remit's checkout: uv tool install '.[agent]'"
        in done.stderr
    )


def test_a_missing_module_of_remits_own_is_no_missing_extra() -> None:
    for own in ("remit.nothing", "remit_agent.nothing"):
        with pytest.raises(ModuleNotFoundError, match=own), name_missing_extra():
            raise ModuleNotFoundError(f"No module named {own!r}", name=own)
    with pytest.raises(ExtraMissing), name_missing_extra():
        raise ModuleNotFoundError("No module named 'acp.x'", name="acp.x")


# --- keys --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory_keyring")
def test_a_stored_key_is_found_where_no_variable_is_set() -> None:
    store_key("anthropic", "stored")
    assert read_keyring("anthropic") == "stored"
    assert find_key("anthropic", ("ANTHROPIC_API_KEY",), {}) == "stored"
    assert find_key("anthropic", ("ANTHROPIC_API_KEY",), {"ANTHROPIC_API_KEY": "set"}) == "set"
    assert find_key("openai", ("OPENAI_API_KEY",), {}) is None


@pytest.mark.usefixtures("no_keyring")
def test_a_machine_without_a_keyring_has_no_key_and_says_so_where_one_is_stored() -> None:
    assert read_keyring("anthropic") is None
    with pytest.raises(KeyringFailed, match="set the provider's variable instead"):
        store_key("anthropic", "k")


# --- windows and prices ----------------------------------------------------------------------------------------------


def test_a_known_model_has_a_window_and_a_price() -> None:
    assert find_window("anthropic", "claude-sonnet-4-5") == 200_000
    assert price_usage("anthropic", "claude-sonnet-4-5", Tokens()) == pytest.approx(3.0, rel=1)
    cached = price_usage("anthropic", "claude-sonnet-4-5", Tokens(cache_read_tokens=1_000_000))
    assert cached is not None
    assert 0 < cached < 1


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", "claude-of-2031"), ("ollama", "gpt-4o"), ("vllm", "m"), ("google", "nothing")]
)
def test_an_unknown_price_or_window_is_unknown_and_not_0(provider: str, model: str) -> None:
    assert find_window(provider, model) is None
    assert price_usage(provider, model, Tokens()) is None


def test_naming_a_model_loads_neither_the_library_nor_the_prices(tmp_path: Path) -> None:
    code = (
        "import sys; from remit_agent.models import endpoints, providers\n"
        "endpoints.find_endpoint('anthropic:m', {'ANTHROPIC_API_KEY': 'k'})\n"
        "print(*{'pydantic_ai', 'genai_prices', 'keyring', 'pydantic', 'httpx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == []
