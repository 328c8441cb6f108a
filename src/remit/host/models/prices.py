"""Window and price of a model, from the tables of genai-prices. Unknown is None, never 0.

genai-prices takes 120 to 300 ms to import: it is loaded at the first question, in the thread that asks.
"""

from typing import Any

PRICE_TABLES = {"vertex": "google", "bedrock": "aws"}
"""Names of providers in genai-prices where they differ from Remit's."""
FREE_OF_TABLES = ("openai-compatible", "vllm", "ollama", "scripted")
"""Providers whose models no table prices, whatever their names are."""


def find_window(provider: str, model: str) -> int | None:
    """Return the context window of a model in tokens."""
    if provider in FREE_OF_TABLES:
        return None
    from genai_prices import data_snapshot

    try:
        found = data_snapshot.get_snapshot().find_provider_model(
            model, None, PRICE_TABLES.get(provider, provider), None
        )
    except LookupError:
        return None
    return found[1].context_window


def price_usage(provider: str, model: str, usage: Any) -> float | None:
    """Return the price of a request in US dollars. `usage` has the attributes of genai-prices' usage, which the
    library's usage has too: tokens of input, output, cache reads and cache writes.
    """
    if provider in FREE_OF_TABLES:
        return None
    from genai_prices import calc_price

    try:
        return float(calc_price(usage, model, provider_id=PRICE_TABLES.get(provider, provider)).total_price)
    except (LookupError, ValueError):
        return None
