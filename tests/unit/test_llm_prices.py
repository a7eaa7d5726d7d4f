"""What tokens cost: dates, tiers, cache prices, the batch lane, and the person's own table."""

from pathlib import Path

import pytest

from taskyard.services.clock import seconds_of
from taskyard.services.errors import ConfigError
from taskyard.services.llm import PriceTable
from taskyard.services.records import Usage

NOW = seconds_of("2026-12-01T16:00:00Z")
EVERYTHING = Usage(
    input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=2_000_000, cache_write_5m_tokens=300_000,
    cache_write_1h_tokens=400_000,
)  # fmt: skip


def table(tmp_path: Path, text: str) -> PriceTable:
    path = tmp_path / "prices.toml"
    path.write_text(text, "utf-8")
    return PriceTable.load(path)


def entry(model: str = "m", since: str = "2026-01-01", more: str = "", **prices: float) -> str:
    given = {"input": 1.0, "output": 2.0} | prices
    lines = "".join(f"{name} = {value}\n" for name, value in given.items())
    return f'[[price]]\nmodel = "{model}"\nsince = {since}\n{lines}{more}\n'


@pytest.mark.parametrize(
    ("model", "input_usd", "output_usd"),
    [
        ("claude-opus-5-2", 4, 20),
        ("claude-sonnet-5-5", 2, 10),
        ("claude-haiku-5", 0.1, 0.5),
        ("claude-haiku-4-5", 1, 5),
    ],
)
def test_the_packaged_table_knows_the_families(model: str, input_usd: float, output_usd: float) -> None:
    """A model's price is that of the longest prefix of its name, per million tokens."""
    price = PriceTable.load(None).find(model, NOW)
    assert price is not None
    assert price.cost(Usage(input_tokens=10_000), "live") == pytest.approx(input_usd / 100)
    assert price.cost(Usage(output_tokens=10_000), "live") == pytest.approx(output_usd / 100)


def test_every_kind_of_token_has_its_price() -> None:
    """Cache writes cost 1.25 and 2 times the input price, reads a tenth; written out by hand for $2 and $10."""
    price = PriceTable.load(None).find("claude-sonnet-5-5", NOW)
    assert price is not None
    assert price.cost(EVERYTHING, "live") == pytest.approx(2.0 + 1.0 + 2 * 0.2 + 0.3 * 2.5 + 0.4 * 4.0)


def test_the_batch_lane_costs_half_of_everything() -> None:
    """Half price, with no kind of token left out."""
    price = PriceTable.load(None).find("claude-opus-5", NOW)
    assert price is not None
    assert price.cost(EVERYTHING, "batch") == pytest.approx(price.cost(EVERYTHING, "live") / 2)
    assert price.worst_case(1000, 500, "batch") == pytest.approx(price.worst_case(1000, 500, "live") / 2)


def test_a_tier_holds_for_the_whole_prompt_once_it_is_larger() -> None:
    """The whole input counts, read from the cache or not; exactly the limit is still the lower tier."""
    price = PriceTable.load(None).find("claude-haiku-5", NOW)
    assert price is not None
    assert price.cost(Usage(input_tokens=100_000, output_tokens=1000), "live") == pytest.approx(0.01 + 0.0005)
    assert price.cost(Usage(input_tokens=100_001, output_tokens=1000), "live") == pytest.approx(0.0500005 + 0.0025)
    mixed = Usage(input_tokens=1, cache_read_tokens=60_000, cache_write_5m_tokens=40_000)
    assert price.cost(mixed, "live") == pytest.approx((1 + 0.1 * 60_000 + 1.25 * 40_000) * 0.5 / 1e6)


def test_a_price_holds_from_its_day_on(tmp_path: Path) -> None:
    """Of several dates the latest that has come counts, by UTC; before the first there is no price."""
    prices = table(tmp_path, entry(since="2026-03-01", input=1.0) + entry(since="2026-06-01", input=3.0))
    expected = {
        "2026-02-28T23:59:59Z": None, "2026-03-01T00:00:00Z": 1.0, "2026-05-31T23:59:59Z": 1.0,
        "2026-06-01T00:00:00Z": 3.0,
        "2026-06-01T01:00:00+02:00": 1.0,
    }  # fmt: skip
    found = {stamp: prices.find("m", seconds_of(stamp)) for stamp in expected}
    assert {stamp: price and price.input for stamp, price in found.items()} == expected


def test_an_unknown_model_has_no_price() -> None:
    """Unpriced is None, never 0."""
    assert PriceTable.load(None).find("org/model-of-someone", NOW) is None
    assert PriceTable.load(None).find("claude", NOW) is None


def test_the_persons_table_adds_and_overrides(tmp_path: Path) -> None:
    """An entry of one's own wins over the packaged one of the same name and day, and the others stay."""
    own = entry("org/model", input=7.0) + entry("claude-opus-5", input=3.0) + entry("claude-opus-5-mini", input=0.5)
    prices = table(tmp_path, own)
    models = ("org/model-v2", "claude-opus-5-2", "claude-opus-5-mini-1", "claude-sonnet-5-5")
    found = [prices.find(model, NOW) for model in models]
    assert [price and price.input for price in found] == [7.0, 3.0, 0.5, 2.0]


def test_cache_prices_may_be_given(tmp_path: Path) -> None:
    """A model that prices its cache in its own way is charged that way, also at 0."""
    prices = table(tmp_path, entry(input=10.0, cache_read=0.0, cache_write_5m=1.0, cache_write_1h=3.0))
    price = prices.find("m", NOW)
    assert price is not None
    usage = Usage(cache_read_tokens=5_000_000, cache_write_5m_tokens=1_000_000, cache_write_1h_tokens=1_000_000)
    assert price.cost(usage, "live") == pytest.approx(4.0)


def test_what_the_prompt_cache_saved_is_reads_less_the_surcharge_of_writes() -> None:
    """A first write costs more than it saves: negative, honestly."""
    price = PriceTable.load(None).find("claude-sonnet-5", NOW)
    assert price is not None
    assert price.prompt_cache_saved(Usage(cache_read_tokens=1_000_000), "live") == pytest.approx(1.8)
    assert price.prompt_cache_saved(Usage(cache_write_5m_tokens=1_000_000), "live") == pytest.approx(-0.5)
    assert price.prompt_cache_saved(Usage(input_tokens=9, output_tokens=9), "live") == pytest.approx(0.0)


def test_the_worst_case_is_never_less_than_the_cost() -> None:
    """Whatever is read, written or sent plain: a reservation covers it."""
    price = PriceTable.load(None).find("claude-haiku-5", NOW)
    assert price is not None
    for kind in ("input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens"):
        for size in (10, 99_999, 100_001):
            usage = Usage(output_tokens=500, **{kind: size})
            assert price.worst_case(size, 500, "live") >= price.cost(usage, "live")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[price]\n", "TOML|Expected|expected"),
        ('[[price]]\nmodel = "m"\n', "since"),
        (entry(more="inputt = 3.0"), "inputt"),
        (entry(input=-1.0), "from 0 to"),
        (entry().replace("1.0", "nan"), "from 0 to"),
        (entry(more="above = { tokens = 5, input = -1.0, output = 1.0 }"), "from 0 to"),
        (entry(more="above = { tokens = 5, input = 1.0, output = nan }"), "from 0 to"),
        (entry(since='"soon"'), "since"),
        ("[models]\nx = 1\n", "models"),
    ],
)
def test_a_bad_table_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    """The message names the file and what is wrong with it."""
    with pytest.raises(ConfigError, match=says) as caught:
        table(tmp_path, text)
    assert str(tmp_path / "prices.toml") in str(caught.value)


def test_a_table_that_is_missing_or_no_text_is_refused_by_name(tmp_path: Path) -> None:
    """So is a file that can't be read."""
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        PriceTable.load(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"# gr\xf6\xdfe\n")
    with pytest.raises(ConfigError, match=r"latin\.toml"):
        PriceTable.load(tmp_path / "latin.toml")
