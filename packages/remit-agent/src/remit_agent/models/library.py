"""Models of real providers: the adapter of pydantic-ai's model layer, and the only importer of pydantic-ai.

The adapter maps the conversation to the library's messages, and the stream to deltas and one whole turn. Retries of the
SDKs are off: a failure is raised at once, as a ProviderError. A stream that ends without the provider's own stop reason
is `truncated`, whatever the library reports: a connection closed by a proxy in mid-text looks whole on most wires.

Windows and prices come from the tables of genai-prices, which pydantic-ai brings; unknown is None, never 0.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, contextmanager
from functools import cache
from itertools import groupby
from ssl import SSLContext
from typing import Any

import anyio
import httpx2
from genai_prices import calc_price, data_snapshot
from msgspec import DecodeError, json
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters, get_user_agent
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from remit_agent.models import port
from remit_agent.models.endpoints import Endpoint
from remit_agent.models.messages import (
    CallResult,
    ConversationItem,
    ImageRef,
    ModelPart,
    ModelTurn,
    StopReason,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    Usage,
)

SILENCE_TIMEOUT_S = 240.0
"""Longest wait for the next event: providers that think long send pings, or a first event within minutes."""
READ_TIMEOUT_S = 1200.0
"""Limit of the HTTP client, which Google asks for; the wait for the next event is shorter."""
CONNECT_TIMEOUT_S = 5.0
MAX_ERROR_CHARS = 500
STOP_REASONS: dict[str | None, StopReason] = {
    "stop": "end",
    "tool_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}
OUTCOMES = {"failed": "failed", "denied": "denied", "done": "success"}
ERROR_KINDS: tuple[tuple[type[Exception], port.ErrorKind], ...] = (
    (exceptions.ModelAuthenticationError, "auth"),
    (exceptions.ModelQuotaExceededError, "quota"),
    (exceptions.ModelContextWindowExceededError, "window"),
    (exceptions.ModelRateLimitError, "rate"),
    (exceptions.ModelUnavailableError, "overloaded"),
    (exceptions.ModelServerError, "server"),
    (exceptions.ModelConnectionError, "connection"),
    (exceptions.ModelRequestTimeout, "connection"),
    (exceptions.ContentFilterError, "rejected"),
    (exceptions.ModelRequestRejectedError, "rejected"),
    (exceptions.UserError, "rejected"),
    (exceptions.AgentRunError, "junk"),
    (ValueError, "junk"),
)
"""Kind of each failure of the library, the first that fits. Junk on the wire also raises ValueErrors of pydantic."""
CREDENTIAL_LIBRARIES = ("google.auth.", "botocore.")
"""Modules whose errors reach the adapter raw: a cloud's credentials are only read when a request is sent."""
CACHE_SETTINGS: dict[str, dict[str, object]] = {
    "anthropic": {
        "anthropic_cache_instructions": True,
        "anthropic_cache_tool_definitions": True,
        "anthropic_cache_messages": True,
    },
    "bedrock": {
        "bedrock_cache_instructions": True,
        "bedrock_cache_tool_definitions": True,
        "bedrock_cache_messages": True,
    },
    "openai": {"openai_store": False},
}
"""Settings of each provider: where its prompt cache begins anew, and that OpenAI keeps no copy."""
ENDS_WITHOUT_REASON = ("ollama",)
"""Providers that may leave the stop reason out of a whole answer."""
PRICE_TABLES = {"vertex": "google", "bedrock": "aws"}
"""Names of providers in genai-prices where they differ from Remit's."""
FREE_OF_TABLES = ("openai-compatible", "vllm", "ollama", "scripted")
"""Providers whose models no table prices, whatever their names are."""


class LibraryModel:
    """A model at an endpoint. The requests of an object run in a single event loop."""

    def __init__(
        self, endpoint: Endpoint, *, window: int | None = None, silence_timeout_s: float = SILENCE_TIMEOUT_S
    ) -> None:
        self.endpoint = endpoint
        self._window = window
        self._model = _open_model(endpoint)
        self._silence_timeout_s = silence_timeout_s

    @property
    def id(self) -> str:
        return self.endpoint.model_id

    @property
    def window(self) -> int | None:
        known = find_window(self.endpoint.provider, self.endpoint.name)
        return self._window or known or self._model.profile.get("context_window")

    def stream(self, request: port.CompletionRequest) -> AbstractAsyncContextManager[AsyncIterator[port.Delta]]:
        return aclosing(self._deltas(request))

    async def _deltas(self, request: port.CompletionRequest) -> AsyncGenerator[port.Delta]:
        """Yield the deltas of one request, the whole turn last. Raises ProviderError."""
        settings = {"max_retries": 0, **CACHE_SETTINGS.get(self.endpoint.provider, {})}
        if request.max_tokens is not None:
            settings["max_tokens"] = request.max_tokens
        opening = model_request_stream(
            self._model,
            _build_messages(request, self._model.system),
            model_settings=ModelSettings(**settings),  # pyright: ignore[reportArgumentType]  settings of one provider
            model_request_parameters=_build_parameters(request),
        )
        with _translate_errors():
            async with AsyncExitStack() as stack:
                with self._limit_silence():
                    stream = await stack.enter_async_context(opening)
                reader = _DeltaReader()
                events = aiter(stream)
                while True:
                    # The timeout covers a single wait: a cancel scope held over a `yield` would cancel the wrong task.
                    with self._limit_silence():
                        event = await anext(events, None)
                    if event is None:
                        break
                    for delta in reader.read(event):
                        yield delta
                turn = self._finish(stream.get())
            yield port.WholeTurn(turn)

    @contextmanager
    def _limit_silence(self) -> Generator[None]:
        try:
            with anyio.fail_after(self._silence_timeout_s):
                yield
        except TimeoutError as error:
            raise port.ProviderError("connection", f"nothing came for {self._silence_timeout_s:g} s") from error

    def _finish(self, response: messages.ModelResponse) -> ModelTurn:
        """Return the whole turn. Raises ProviderError if the provider gave no stop reason of its own."""
        reason = (response.provider_details or {}).get("finish_reason")
        is_refused = response.finish_reason == "content_filter"
        ends_so = self.endpoint.provider in ENDS_WITHOUT_REASON and response.parts
        if reason is None and not is_refused and not ends_so:
            raise port.ProviderError("truncated", "the answer ended without a stop reason")
        if response.finish_reason == "error":
            raise port.ProviderError("junk", f"the provider ended the answer with {reason!r}")
        is_cut = response.finish_reason == "length"
        provider = response.provider_name or self._model.system
        parts = tuple(_read_parts(response.parts, provider, is_cut=is_cut))
        if not parts and not is_refused and not is_cut:
            raise port.ProviderError("junk", "the answer is empty")
        has_calls = any(isinstance(part, ToolCallPart) for part in parts)
        stop = STOP_REASONS.get(response.finish_reason, "end")
        usage = response.usage
        return ModelTurn(
            parts,
            "tool_calls" if stop == "end" and has_calls else stop,
            response.model_name or self.endpoint.name,
            Usage(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens),
            price_usage(self.endpoint.provider, self.endpoint.name, usage),
            response.provider_response_id or "",
        )


@cache
def _load_certificates() -> SSLContext:
    """Return the TLS context of all clients of this process: reading the certificates takes 60 ms."""
    return httpx2.create_ssl_context()


def _open_client() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        verify=_load_certificates(),
        timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        headers={"User-Agent": get_user_agent()},
        event_hooks={"request": [_limit_connecting]},
    )


async def _limit_connecting(request: httpx2.Request) -> None:
    request.extensions["timeout"]["connect"] = CONNECT_TIMEOUT_S


def _open_model(endpoint: Endpoint) -> Model:
    match endpoint.provider:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(
                endpoint.name,
                provider=AnthropicProvider(
                    api_key=endpoint.key or "", base_url=endpoint.url, http_client=_open_client()
                ),
            )
        case "google" | "vertex":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider
            from pydantic_ai.providers.google_cloud import GoogleCloudProvider

            if endpoint.provider == "google":
                return GoogleModel(
                    endpoint.name,
                    provider=GoogleProvider(
                        api_key=endpoint.key or "", base_url=endpoint.url, http_client=_open_client()
                    ),
                )
            cloud = GoogleCloudProvider(project=endpoint.project, location=endpoint.region, http_client=_open_client())
            return GoogleModel(endpoint.name, provider=cloud)
        case "bedrock":
            from pydantic_ai.models.bedrock import BedrockConverseModel
            from pydantic_ai.providers.bedrock import BedrockProvider

            region = {"region_name": endpoint.region} if endpoint.region else {}
            return BedrockConverseModel(endpoint.name, provider=BedrockProvider(**region))
        case "openai":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            return OpenAIResponsesModel(
                endpoint.name,
                provider=OpenAIProvider(api_key=endpoint.key or "", base_url=endpoint.url, http_client=_open_client()),
            )
        case _:
            return _open_chat_model(endpoint)


def _open_chat_model(endpoint: Endpoint) -> Model:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
    from pydantic_ai.providers.vllm import VLLMProvider

    # Without a key the library would look for one in the environment, and send it to this address.
    key, client = endpoint.key or "none", _open_client()
    if endpoint.provider == "ollama":
        ollama = OllamaProvider(base_url=endpoint.url, api_key=key, http_client=client)
        return OllamaModel(endpoint.name, provider=ollama)
    if endpoint.provider == "vllm":
        vllm = VLLMProvider(base_url=endpoint.url, api_key=key, http_client=client)
        return OpenAIChatModel(endpoint.name, provider=vllm)
    compatible = OpenAICompatibleProvider("openai-compatible", base_url=endpoint.url, api_key=key, http_client=client)
    return OpenAIChatModel(endpoint.name, provider=compatible)


# --- the request ---------------------------------------------------------------------------------------------


def _build_parameters(request: port.CompletionRequest) -> ModelRequestParameters:
    tools = [
        ToolDefinition(name=tool.name, parameters_json_schema=tool.schema, description=tool.description)
        for tool in request.tools
    ]
    instructions = [messages.InstructionPart(content=request.system)] if request.system else None
    return ModelRequestParameters(function_tools=tools, instruction_parts=instructions)


def _build_messages(request: port.CompletionRequest, system: str) -> list[messages.ModelMessage]:
    built: list[messages.ModelMessage] = []
    for is_turn, items in groupby(request.conversation, lambda item: isinstance(item, ModelTurn)):
        if is_turn:
            built += [_build_turn(turn, system) for turn in items if isinstance(turn, ModelTurn) and turn.parts]
        else:
            parts = [part for item in items for part in _build_input(item, request.images)]
            built.append(messages.ModelRequest(parts=parts, instructions=request.system or None))
    return built


def _build_input(item: ConversationItem, images: Mapping[str, bytes]) -> Iterator[messages.ModelRequestPart]:
    if isinstance(item, CallResult):
        pictures = _build_images(item.images, images)
        yield messages.ToolReturnPart(
            tool_name=item.tool,
            content=[item.text, *pictures] if pictures else item.text,
            tool_call_id=item.id,
            outcome=OUTCOMES.get(item.kind, "interrupted"),  # pyright: ignore[reportArgumentType]  a literal's word
        )
    elif not isinstance(item, ModelTurn):
        pictures = _build_images(getattr(item, "images", ()), images)
        yield messages.UserPromptPart(content=[item.text, *pictures] if pictures else item.text)


def _build_images(refs: Iterable[ImageRef], images: Mapping[str, bytes]) -> list[messages.BinaryContent]:
    return [
        messages.BinaryContent(data=images[ref.sha256], media_type=ref.media_type)
        for ref in refs
        if ref.sha256 in images
    ]


def _build_turn(turn: ModelTurn, system: str) -> messages.ModelResponse:
    own = {id(part): part.meta if part.meta.get("provider") == system else {} for part in turn.parts}
    thoughts = [part for part in turn.parts if isinstance(part, ThoughtPart)]
    is_whole = all(own[id(part)].get("signature") for part in thoughts)
    parts: list[messages.ModelResponsePart] = []
    for part in turn.parts:
        meta = own[id(part)]
        given: dict[str, Any] = {"provider_name": system, "provider_details": meta.get("details")} if meta else {}
        part_id = meta.get("id") if is_whole else None
        match part:
            case TextPart():
                parts.append(messages.TextPart(content=part.text, id=part_id, **given))
            case ThoughtPart() if signature := meta.get("signature"):
                parts.append(messages.ThinkingPart(content=part.text, id=meta.get("id"), signature=signature, **given))
            case ToolCallPart():
                arguments = part.raw if part.arguments is None else part.arguments
                parts.append(
                    messages.ToolCallPart(
                        tool_name=part.tool,
                        args=arguments,
                        tool_call_id=part.id,
                        id=part_id,
                        **given,
                    )
                )
            case _:
                pass
    return messages.ModelResponse(parts=parts, provider_name=system, model_name=turn.model or None)


# --- the answer ----------------------------------------------------------------------------------------------


class _DeltaReader:
    """Reader of the library's events. The library counts parts of every kind; deltas count calls."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}

    def read(self, event: object) -> Iterator[port.Delta]:
        match event:
            case messages.PartStartEvent(index=index, part=messages.ToolCallPart() as part):
                call = self._calls.setdefault(index, len(self._calls))
                yield port.CallDelta(call, part.tool_call_id, part.tool_name, _write_arguments(part.args))
            case messages.PartDeltaEvent(index=index, delta=messages.ToolCallPartDelta() as delta):
                call = self._calls.setdefault(index, len(self._calls))
                named = delta.tool_call_id or "", delta.tool_name_delta or ""
                yield port.CallDelta(call, *named, _write_arguments(delta.args_delta))
            case (
                messages.PartStartEvent(part=messages.TextPart(content=text))
                | messages.PartDeltaEvent(delta=messages.TextPartDelta(content_delta=text))
            ) if text:
                yield port.TextDelta(text)
            case (
                messages.PartStartEvent(part=messages.ThinkingPart(content=text))
                | messages.PartDeltaEvent(delta=messages.ThinkingPartDelta(content_delta=text))
            ) if text:
                yield port.ThoughtDelta(text)
            case _:
                pass


def _write_arguments(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.encode(arguments).decode() if arguments else ""


def _read_parts(parts: Iterable[messages.ModelResponsePart], provider: str, *, is_cut: bool) -> Iterator[ModelPart]:
    found = list(parts)
    for part in found:
        known = {
            "id": getattr(part, "id", None),
            "signature": getattr(part, "signature", None),
            "details": getattr(part, "provider_details", None),
        }
        opaque = {key: value for key, value in known.items() if value}
        meta: dict[str, Any] = {"provider": part.provider_name or provider, **opaque} if opaque else {}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        match part:
            case messages.TextPart() if part.content or meta:
                yield TextPart(part.content, meta)
            case messages.ThinkingPart():
                yield ThoughtPart(part.content, meta)
            case messages.ToolCallPart():
                raw = _write_arguments(part.args)
                arguments = None if is_cut and part is found[-1] and not raw else _parse_arguments(raw)
                yield ToolCallPart(part.tool_call_id, part.tool_name, arguments, raw if arguments is None else "", meta)
            case _:
                pass


def _parse_arguments(raw: str) -> dict[str, Any] | None:
    try:
        return json.decode(raw or "{}", type=dict[str, Any])
    except (DecodeError, RecursionError):
        return None


# --- failures ------------------------------------------------------------------------------------------------


@contextmanager
def _translate_errors() -> Generator[None]:
    try:
        yield
    except port.ProviderError:
        raise
    except Exception as error:
        kind = _find_kind(error)
        if kind is None:
            raise
        after = getattr(error, "retry_after", None)
        raise port.ProviderError(kind, _describe(error), after) from error


def _find_kind(error: Exception) -> port.ErrorKind | None:
    for failure, kind in ERROR_KINDS:
        if isinstance(error, failure):
            status = getattr(error, "status_code", None)
            if kind == "junk" and isinstance(status, int):
                return "server" if status >= 500 or status in (408, 409) else "rejected"
            return kind
    return "auth" if type(error).__module__.startswith(CREDENTIAL_LIBRARIES) else None


def _describe(error: Exception) -> str:
    body: Any = getattr(error, "body", None)
    for key in ("error", "message"):
        body = body.get(key, body) if isinstance(body, dict) else body  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    words = body if isinstance(body, str) and body else str(error) or type(error).__name__
    status = getattr(error, "status_code", None)
    line = " ".join(words.split())[:MAX_ERROR_CHARS]
    return f"{status}: {line}" if status else line


def find_window(provider: str, model: str) -> int | None:
    """Return the context window of a model in tokens."""
    if provider in FREE_OF_TABLES:
        return None
    try:
        found = data_snapshot.get_snapshot().find_provider_model(
            model, None, PRICE_TABLES.get(provider, provider), None
        )
    except LookupError:
        return None
    return found[1].context_window


def price_usage(provider: str, model: str, usage: Any) -> float | None:
    if provider in FREE_OF_TABLES:
        return None
    try:
        return float(calc_price(usage, model, provider_id=PRICE_TABLES.get(provider, provider)).total_price)
    except (LookupError, ValueError):
        return None
