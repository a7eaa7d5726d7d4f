"""Token counts and the prompt cache of the practice server.

A token is four bytes of canonical JSON, rounded up per block: an estimate, but the same one for `usage` and for
`count_tokens`, and a pure function of the request.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from taskyard.services.practice.wire import Json, canonical
from taskyard.services.records import Lane, Usage

BYTES_PER_TOKEN = 4
LEAST_CACHED_TOKENS = 1024
"""A shorter prefix is never cached."""
TTL_S = {"5m": 300.0, "1h": 3600.0}

_LOOK_BACK = 20
"""How many blocks before a mark are searched for an earlier request's mark, as the provider's documentation says."""


def tokens_of(data: bytes) -> int:
    """The number of tokens of some bytes."""
    return -(-len(data) // BYTES_PER_TOKEN)


class Segment(msgspec.Struct, frozen=True):
    """One block of a request, in the order in which prefixes are cached: tools, system, messages."""

    data: bytes
    """Canonical JSON without the mark itself: a mark that moves leaves the bytes before it as they were."""
    ttl: str | None
    """`5m` or `1h` when the block carries a mark."""

    @property
    def tokens(self) -> int:
        return tokens_of(self.data)


def segments(params: Mapping[str, Any]) -> list[Segment]:
    """The blocks of a valid request. A `cache_control` at the top marks the last one."""
    found = [_segment("tool", tool) for tool in params.get("tools", [])]
    found += [_segment("system", block) for block in _blocks(params.get("system", []))]
    for message in params["messages"]:
        found += [_segment(message["role"], block) for block in _blocks(message["content"])]
    top = params.get("cache_control")
    if top and found[-1].ttl is None:
        found[-1] = Segment(found[-1].data, top.get("ttl", "5m"))
    return found


def input_tokens(params: Mapping[str, Any]) -> int:
    """The whole input of a valid request."""
    return sum(segment.tokens for segment in segments(params))


def output_tokens(content: Sequence[Json]) -> int:
    """The tokens of an answer's blocks; ids do not count, since they are random."""
    return sum(block_tokens(block) for block in content)


def block_tokens(block: Json) -> int:
    """The tokens of one block of an answer."""
    if block["type"] == "text":
        return tokens_of(block["text"].encode())
    return tokens_of(canonical({"name": block["name"], "input": block["input"]}))


def _blocks(content: str | list[Json]) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


def _segment(kind: str, block: Json) -> Segment:
    mark = block.get("cache_control") or _inner_mark(block)
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    if isinstance(bare.get("content"), list):
        bare["content"] = [
            {name: value for name, value in part.items() if name != "cache_control"} for part in bare["content"]
        ]
    return Segment(kind.encode() + canonical(bare), mark.get("ttl", "5m") if mark else None)


def _inner_mark(block: Json) -> Json | None:
    parts = block.get("content") if block.get("type") == "tool_result" else None
    marks = [part["cache_control"] for part in parts if part.get("cache_control")] if isinstance(parts, list) else []
    return marks[-1] if marks else None


class Writes(msgspec.Struct, frozen=True):
    """The prefixes that a request leaves in the cache: digest → ttl, to be kept from `at` (seconds) on."""

    prefixes: dict[bytes, str]
    at: float


class PromptCache:
    """Which prefixes were sent before, and until when they count.

        usage, writes = cache.measure(params, "live", now)      # looks, changes nothing
        cache.keep(writes)                                      # now later requests may read them

    The lanes have a cache each: a live request was seen not to warm a batch. A prefix counts from
    1,024 tokens on. Not safe for threads: the caller holds a lock over `measure` and `keep`.
    """

    def __init__(self) -> None:
        self._entries: dict[bytes, tuple[str, float]] = {}

    def measure(self, params: Mapping[str, Any], lane: Lane, now: float, *, marks: bool = True) -> tuple[Usage, Writes]:
        """The input side of the usage, and what the request would leave behind. marks: whether they are honoured."""
        blocks = segments(params)
        digests, sums = _prefixes(blocks, f"{lane} {params['model']}")
        marked = [
            index for index, block in enumerate(blocks) if marks and block.ttl and sums[index] >= LEAST_CACHED_TOKENS
        ]
        read, refreshed = self._longest(digests, sums, marked, now)
        written = {"5m": 0, "1h": 0}
        done = sums[read] if read >= 0 else 0
        read_tokens = done
        prefixes = dict(refreshed)
        for index in marked:
            ttl = blocks[index].ttl or "5m"
            written[ttl] += max(0, sums[index] - done)
            done = max(done, sums[index])
            prefixes.setdefault(digests[index], ttl)
        usage = Usage(
            input_tokens=sums[-1] - done if sums else 0,
            cache_read_tokens=read_tokens,
            cache_write_5m_tokens=written["5m"],
            cache_write_1h_tokens=written["1h"],
        )
        return usage, Writes(prefixes, now)

    def keep(self, writes: Writes) -> None:
        """Let later requests read these prefixes; an entry that was read lives on for its own ttl."""
        for digest, ttl in writes.prefixes.items():
            self._entries[digest] = (ttl, writes.at + TTL_S[ttl])

    def _longest(
        self, digests: Sequence[bytes], sums: Sequence[int], marks: Sequence[int], now: float
    ) -> tuple[int, dict[bytes, str]]:
        """The index of the last block of the longest cached prefix (-1: none), and the entry that was read."""
        near = {index for mark in marks for index in range(max(0, mark - _LOOK_BACK), mark + 1)}
        for index in sorted(near, reverse=True):
            ttl, expires = self._entries.get(digests[index], ("", 0.0))
            if expires > now and sums[index] >= LEAST_CACHED_TOKENS:
                return index, {digests[index]: ttl}
        return -1, {}


def _prefixes(blocks: Sequence[Segment], space: str) -> tuple[list[bytes], list[int]]:
    """For each block, the digest of all bytes up to its end and the tokens up to its end."""
    hasher = blake2b(space.encode(), digest_size=16)
    digests: list[bytes] = []
    sums: list[int] = []
    total = 0
    for block in blocks:
        hasher.update(len(block.data).to_bytes(8, "big") + block.data)
        total += block.tokens
        digests.append(hasher.digest())
        sums.append(total)
    return digests, sums
