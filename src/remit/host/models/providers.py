"""Models by their names: the library behind a provider's endpoint."""

from collections.abc import Mapping

from remit.host.extra import name_missing_extra
from remit.host.models.endpoints import find_endpoint
from remit.host.models.port import Provider


def open_provider(model_id: str, variables: Mapping[str, str]) -> Provider:
    """Return the model `PROVIDER:NAME`. Loads the library, which takes about a second: call it in a thread.

    Raises NoSuchModel, NoKey, ExtraMissing.
    """
    endpoint = find_endpoint(model_id, variables)
    with name_missing_extra("agent,agent-bedrock" if endpoint.provider == "bedrock" else "agent"):
        from remit.host.models.library import LibraryModel

        return LibraryModel(endpoint)
