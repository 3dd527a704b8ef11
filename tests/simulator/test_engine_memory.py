"""KV blocks, the prefix cache, preemption."""

from __future__ import annotations

from random import Random

from sidecar.simulator.engine import Engine
from sidecar.simulator.kv import BlockPool
from sidecar.simulator.model import EngineConfig, Timing
from sidecar.simulator.request import Outcome, Request

TIMING = Timing(step_base=0.010, per_sequence=0.001, per_prompt_token=0.0001)


def test_blocks_in_use_are_those_of_the_tokens_computed() -> None:
    engine = Engine(EngineConfig(TIMING, kv_blocks=64, block_size=16, max_model_len=512))
    engine.submit(Request(prompt_tokens=32, output_tokens=40))
    engine.advance(0.0133)  # the prefill ends at 13.2 ms: 32 tokens are in the cache
    assert engine.telemetry.kv_used == 2
    engine.advance(0.0133 + 0.011)  # the first answer token was computed: 33 tokens
    assert engine.telemetry.kv_used == 3
    engine.advance(0.0133 + 0.011 * 16)
    assert engine.telemetry.kv_used == 3
    engine.advance(0.0133 + 0.011 * 17)
    assert engine.telemetry.kv_used == 4
    engine.advance(5.0)
    assert engine.telemetry.kv_used == 0


def test_prefix_hits_are_whole_blocks_of_what_was_shared() -> None:
    engine = Engine(EngineConfig(TIMING, kv_blocks=64, block_size=128, max_model_len=1024))
    for moment in (1.0, 2.0):
        engine.advance(moment)
        engine.submit(Request(610, 5, prefix_key="seed 7", prefix_tokens=600))
    engine.advance(3.0)
    seen = engine.telemetry
    # As measured on the real one with blocks of 128: 610 queried each time, 512 found the second time.
    assert (seen.prefix_queried, seen.prefix_hit) == (1220, 512)
    assert (seen.prompt_tokens, seen.cached_tokens) == (1220, 512)
    assert seen.request_computed_tokens.total == 610 + 98
    assert seen.kv_used == 0  # cached blocks that nobody holds count as free


def test_shared_blocks_count_once_and_are_evicted_when_idle() -> None:
    engine = Engine(EngineConfig(TIMING, max_num_seqs=8, kv_blocks=32, block_size=16, max_model_len=512))
    engine.submit(Request(161, 2, prefix_key=1, prefix_tokens=160))
    engine.advance(1.0)
    for _ in range(3):
        engine.submit(Request(161, 200, prefix_key=1, prefix_tokens=160))
    engine.advance(1.03)
    assert engine.telemetry.running == 3
    assert engine.telemetry.kv_used == 10 + 3  # one prefix, and a block of their own each
    engine.advance(20.0)
    engine.submit(Request(490, 5))  # 31 blocks: the idle prefix has to go
    engine.advance(21.0)
    before = engine.telemetry.prefix_hit
    engine.submit(Request(161, 2, prefix_key=1, prefix_tokens=160))
    engine.advance(22.0)
    assert engine.telemetry.prefix_hit == before
    assert engine.telemetry.finished == 6


def test_without_prefix_caching_nothing_is_looked_up() -> None:
    engine = Engine(EngineConfig(TIMING, prefix_caching=False))
    for _ in range(2):
        engine.submit(Request(100, 2, prefix_key=1, prefix_tokens=96))
        engine.advance(engine.now + 1.0)
    assert (engine.telemetry.prefix_queried, engine.telemetry.cached_tokens) == (0, 0)


def test_a_full_cache_preempts_the_newest_which_starts_over() -> None:
    engine = Engine(EngineConfig(TIMING, max_num_seqs=4, kv_blocks=20, block_size=16, max_model_len=320))
    old, new = Request(100, 150), Request(100, 150)
    engine.submit(old)
    engine.submit(new)
    full = False
    while old.outcome is None:
        engine.advance(engine.now + 0.01)
        full |= engine.telemetry.kv_used == 20
    seen = engine.telemetry
    assert full
    assert (old.preemptions, new.preemptions) == (0, 1)
    assert seen.preemptions == 1
    engine.advance(engine.now + 10.0)
    assert (new.outcome, new.generated) == (Outcome.STOP, 150)
    assert seen.prompt_tokens == 200  # its second prefill isn't prompt again
    assert seen.recomputed_tokens > 100  # but it did compute prompt and answer once more
    assert seen.time_to_first_token.count == 2
    assert seen.inter_token.count == 2 * 149  # the stall is one long gap
    assert seen.inter_token.count - seen.inter_token.cumulative((0.1,))[0] == 1
    assert seen.request_preemptions.total == 1
    assert seen.kv_used == 0


def test_a_preempted_request_finds_its_prefix_again_counted_apart() -> None:
    engine = Engine(EngineConfig(TIMING, max_num_seqs=4, kv_blocks=20, block_size=16, max_model_len=320))
    for key in (1, 2):
        engine.submit(Request(100, 150, prefix_key=key, prefix_tokens=96))
    engine.advance(20.0)
    seen = engine.telemetry
    assert seen.preemptions >= 1
    assert seen.prefix_queried == 200
    assert seen.prefix_requeried > 100
    assert seen.finished == 2


def test_a_pool_never_gives_more_than_it_has() -> None:
    random, pool = Random(5), BlockPool(50)
    private: list[int] = []
    for _ in range(3000):
        if random.random() < 0.5:
            blocks = random.randrange(12)
            if pool.take(blocks):
                private.append(blocks)
                if blocks and random.random() < 0.3 and (prefix := pool.publish(random.randrange(5), blocks)):
                    private.pop()
                    pool.release(prefix)
        elif private and random.random() < 0.7:
            pool.give(private.pop(random.randrange(len(private))))
        elif (known := pool.look_up(random.randrange(5))) is not None:
            pool.hold(known)
            assert pool.used >= known.blocks
            pool.release(known)
        assert pool.used == sum(private)
        assert 0 <= pool.used <= pool.used + pool.cached <= 50
    pool.forget()
    assert pool.cached == 0
