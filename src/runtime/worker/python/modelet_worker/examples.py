"""
Runs a modelet's example inputs: as a warm-up before the worker is ready, and when a health check asks for it.
src/runtime/worker/batch/examples.ts does the same for JavaScript.
"""
import math
from typing import List, Optional, Sequence

from .batch import Run, run_batch
from .codec import Payload, encode_payload
from .errors import encode_error
from .frames import Item, Reply
from .modelet import LoadedModelet


class WarmUpFailed(Exception):
    """Says which example fails, and why."""


async def try_example(modelet: LoadedModelet, example: int, deadline: float, run: Run) -> Optional[bytes]:
    """Runs one example as a request with that payload would run. Returns the encoded error, or None if it works."""
    try:
        payload = payload_of(modelet, example, run)
    except Exception as raised:
        return encode_error(raised)
    (reply,) = await run_payloads(modelet, [payload], deadline, run)
    return None if reply.ok else b"".join(reply.parts)


async def warm_up(modelet: LoadedModelet, batch_size: int, run: Run) -> None:
    """
    Runs each example alone. If one call takes several inputs, then runs one batch that repeats the examples in turn. Raises
    WarmUpFailed for the first example that fails.
    """
    count = len(modelet.examples)
    payloads: List[Payload] = []
    for example in range(count):
        try:
            payloads.append(payload_of(modelet, example, run))
        except Exception as raised:
            raise WarmUpFailed(f"the warm-up failed at example {example}: {raised}") from raised
        _check(await run_payloads(modelet, payloads[-1:], math.inf, run), f"example {example}")
    if not modelet.runs_together or count == 0 or batch_size == 1:
        return
    batch: List[Payload] = []
    size = 0
    # A batch of many large examples could exceed the memory.
    while len(batch) < batch_size and size < run.max_payload_bytes:
        batch.append(payloads[len(batch) % count])
        size += batch[-1].length
    _check(await run_payloads(modelet, batch, math.inf, run), f"a batch of {len(batch)} examples")


def payload_of(modelet: LoadedModelet, example: int, run: Run) -> Payload:
    return encode_payload(modelet.examples[example], run.max_payload_bytes, "invalid_input")


async def run_payloads(modelet: LoadedModelet, payloads: Sequence[Payload], deadline: float, run: Run) -> List[Reply]:
    """Runs payloads as a batch of requests would run."""
    items = [
        Item(index, deadline, payload.codec, memoryview(bytearray(b"".join(payload.parts))))
        for index, payload in enumerate(payloads)
    ]
    return await run_batch(modelet, items, run._replace(is_cancelled=lambda _id: False, parts=None))


def _check(replies: Sequence[Reply], what: str) -> None:
    failed = next((reply for reply in replies if not reply.ok), None)
    if failed is not None:
        raise WarmUpFailed(f"the warm-up failed at {what}: {failed.error}") from failed.error
