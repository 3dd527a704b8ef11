"""What an engine is: how large its batch and its KV cache are, and how long a step takes."""

from __future__ import annotations

from dataclasses import dataclass, field

NS = 1_000_000_000


def to_ns(seconds: float) -> int:
    """Seconds to whole nanoseconds. The engine counts in integers, so that a run of a thousand equal steps
    ends at the same instant whether it is taken at once or step by step."""
    return round(seconds * NS)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that a step takes: `step_base` + `per_sequence` · decoding sequences + `per_prompt_token` ·
    prompt tokens computed in it.

    The defaults are of the order of an 8B model on one large GPU: 12 ms between tokens alone, 24 ms in a
    batch of 64, some 16,000 prompt tokens a second.
    """

    step_base: float = 0.012
    per_sequence: float = 0.0002
    per_prompt_token: float = 0.00006

    def step_ns(self, decoding: int, prompt_tokens: int, slowdown: float = 1.0) -> int:
        """Length of one step, at least 1 ns: time must move."""
        seconds = self.step_base + self.per_sequence * decoding + self.per_prompt_token * prompt_tokens
        return max(1, to_ns(seconds * slowdown))

    def inter_token_seconds(self, batch: int) -> float:
        """Gap between two tokens of a sequence in a batch of that size with no prefill in it."""
        return self.step_base + self.per_sequence * batch


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One engine. `kv_blocks` are the usable blocks (vLLM reports one more: its null block is never used).

    `slow_gap` is the gap between two tokens, in seconds, above which `Request.slow_gaps` counts it.
    `max_queued_requests` refuses a request when that many already wait; None never refuses.
    Raises ValueError when the engine could never run its longest request, as a real one refuses to start.
    """

    timing: Timing = field(default_factory=Timing)
    max_num_seqs: int = 64
    max_batched_tokens: int = 2048
    kv_blocks: int = 4096
    block_size: int = 16
    max_model_len: int = 8192
    prefix_caching: bool = True
    max_queued_requests: int | None = None
    slow_gap: float = 0.05

    def __post_init__(self) -> None:
        if min(self.max_num_seqs, self.kv_blocks, self.block_size, self.max_model_len) < 1:
            raise ValueError("sizes of an engine are positive")
        if self.max_batched_tokens <= self.max_num_seqs:
            raise ValueError(
                "max_batched_tokens must exceed max_num_seqs: a full batch would leave no prefill"
            )
        if self.kv_blocks * self.block_size < self.max_model_len:
            raise ValueError(
                "the KV cache is smaller than max_model_len: the longest request could never run"
            )

    @property
    def kv_tokens(self) -> int:
        return self.kv_blocks * self.block_size
