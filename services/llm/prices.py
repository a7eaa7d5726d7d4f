"""What tokens cost: a dated, tiered table that the user can add to or override.

table = PriceTable.load(None)
price = table.find("claude-sonnet-5-5", clock.now())     # None: unpriced, never 0
price.cost(usage, "live")                                # US dollars
"""

import difflib
import tomllib
from datetime import UTC, date, datetime
from importlib import resources
from pathlib import Path

import msgspec

from taskyard.services.errors import ConfigError
from taskyard.services.records import Lane, Usage

_MILLION = 1_000_000
_BATCH_FACTOR = 0.5


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices that hold when the whole prompt has more than `tokens` tokens."""

    tokens: int
    input: float
    output: float


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens of the models whose name begins with `model`, from `since` on (UTC)."""

    model: str
    since: date
    input: float
    output: float
    cache_write_5m: float | None = None
    """None: 1.25 times the input price."""
    cache_write_1h: float | None = None
    """None: twice the input price."""
    cache_read: float | None = None
    """None: a tenth of the input price."""
    above: Tier | None = None

    def cost(self, usage: Usage, lane: Lane) -> float:
        """What an answer with this usage costs in a lane, US dollars."""
        rate = self._rates(usage)
        dollars = (
            usage.input_tokens * rate.input
            + usage.output_tokens * rate.output
            + usage.cache_read_tokens * _or(rate.cache_read, 0.1 * rate.input)
            + usage.cache_write_5m_tokens * _or(rate.cache_write_5m, 1.25 * rate.input)
            + usage.cache_write_1h_tokens * _or(rate.cache_write_1h, 2 * rate.input)
        ) / _MILLION
        return dollars * (_BATCH_FACTOR if lane == "batch" else 1.0)

    def prompt_cache_saved(self, usage: Usage, lane: Lane) -> float:
        """What the provider's prompt cache saved on this answer: reads at a discount, less the surcharge of writes."""
        plain = Usage(
            input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
        )
        return self.cost(plain, lane) - self.cost(usage, lane)

    def worst_case(self, input_tokens: int, max_tokens: int, lane: Lane) -> float:
        """The most a request can cost: every input token written to the dearest cache, all of `max_tokens` used."""
        return self.cost(Usage(cache_write_1h_tokens=input_tokens, output_tokens=max_tokens), lane)

    def _rates(self, usage: Usage) -> "Price":
        whole = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if self.above is None or whole <= self.above.tokens:
            return self
        return msgspec.structs.replace(
            self,
            input=self.above.input,
            output=self.above.output,
            cache_read=None,
            cache_write_5m=None,
            cache_write_1h=None,
        )


class PriceTable:
    """All known prices."""

    def __init__(self, prices: tuple[Price, ...]) -> None:
        self._prices = prices

    @classmethod
    def load(cls, extra: Path | None) -> "PriceTable":
        """The packaged table, and the user's file before it. Raises ConfigError naming file and fault."""
        packaged = resources.files("taskyard.services").joinpath("llm", "prices.toml").read_text("utf-8")
        prices = _parse(packaged, "the packaged price table")
        if extra is not None:
            try:
                prices = _parse(extra.read_text("utf-8"), str(extra)) + prices
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"[models] prices: can't read {extra}: {error}") from error
        return cls(prices)

    def find(self, model: str, now: float) -> Price | None:
        """The price of a model at a time (seconds since 1970); None when the table does not know it."""
        today = datetime.fromtimestamp(now, UTC).date()
        fitting = [price for price in self._prices if model.startswith(price.model) and price.since <= today]
        if not fitting:
            return None
        longest = max(len(price.model) for price in fitting)
        named = [price for price in fitting if len(price.model) == longest]
        latest = max(price.since for price in named)
        return next(price for price in named if price.since == latest)

    def nearest(self, model: str) -> str | None:
        """The name in the table that is most like a model's, for a name that was mistyped; None when none is."""
        names = list(dict.fromkeys(price.model for price in self._prices))
        return next(iter(difflib.get_close_matches(model, names, n=1)), None)


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _parse(text: str, where: str) -> tuple[Price, ...]:
    try:
        table = tomllib.loads(text)
        prices = msgspec.convert(table.get("price", []), type=tuple[Price, ...])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{where}: {error}. Each [[price]] needs model, since, input and output.") from error
    if unknown := sorted(set(table) - {"price"}):
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; only [[price]] entries are read")
    for price in prices:
        above = (price.above.tokens, price.above.input, price.above.output) if price.above else ()
        own = (price.input, price.output, price.cache_read, price.cache_write_5m, price.cache_write_1h)
        if any(number is not None and not 0 <= number < _MILLION for number in (*own, *above[1:])) or (
            above and above[0] < 0
        ):
            raise ConfigError(
                f"{where}: the prices of {price.model} must be from 0 to 1,000,000 dollars per million tokens"
            )
    return prices
