"""Models by their names: the library behind a provider's endpoint, or a script."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.python_runtime import prepare_type
from remit.host.models.endpoints import ModelNotOpened, NoSuchModel, find_endpoint
from remit.host.models.extra import name_missing_extra
from remit.host.models.in_process import InProcessModel
from remit.host.models.port import Provider
from remit.host.scripted_model import ModelRequest, Say, ScriptedModel, StepParts, Use

SCRIPTED = "scripted:"
MAX_TURNS = 10_000


class ScriptedPart(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a turn in the file of a scripted model: text, or a call."""

    say: str = ""
    tool: str = ""
    input: dict[str, object] = {}


def check_model(model_id: str, variables: Mapping[str, str]) -> None:
    """Raise NoSuchModel or NoKey if the model cannot be opened; loads nothing."""
    if not model_id.startswith(SCRIPTED):
        find_endpoint(model_id, variables)


def open_provider(model_id: str, variables: Mapping[str, str], window: int | None = None) -> Provider:
    """Return the model `PROVIDER:NAME`, or `scripted:FILE`; `window` is the context window of a model missing from the
    tables.

    Loading the library takes about a second: call the function in a thread. Raises NoSuchModel, NoKey, ExtraMissing,
    ModelNotOpened.
    """
    if model_id.startswith(SCRIPTED):
        return open_script(model_id, window)
    endpoint = find_endpoint(model_id, variables)
    with name_missing_extra("agent,agent-bedrock" if endpoint.provider == "bedrock" else "agent"):
        from remit.host.models.library import LibraryModel

        try:
            return LibraryModel(endpoint, window=window)
        except ImportError:
            raise
        except Exception as error:  # each provider's library has errors of its own
            cause = " ".join(str(error).split()) or type(error).__name__
            raise ModelNotOpened(endpoint.model_id, cause) from error


def open_script(model_id: str, window: int | None) -> Provider:
    """Return the model of a script: a JSON list of turns, each a list of parts. The number of turns in the conversation
    selects the next turn, hence a resumed run goes on at the same turn.
    """
    path = Path(model_id.removeprefix(SCRIPTED))
    try:
        turns = msgspec.json.decode(path.read_bytes(), type=prepare_type(list[list[ScriptedPart]]))
    except (OSError, msgspec.DecodeError) as error:
        raise NoSuchModel(model_id, f"names no script: {error}") from error

    def answer(conversation: ModelRequest) -> StepParts:
        place = sum(message.role == "assistant" for message in conversation.messages)
        if place >= len(turns):
            return Say("The script has ended.")
        return [Use(part.tool, part.input) if part.tool else Say(part.say) for part in turns[place]]

    return InProcessModel(ScriptedModel([answer] * MAX_TURNS), model_id, window)
