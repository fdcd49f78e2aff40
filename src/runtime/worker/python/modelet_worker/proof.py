"""
Proves that a batch does not change answers, or shows a case in which it does: runs the examples alone, together and in
another order, and compares the answers. src/runtime/worker/batch/proof.ts and examples.ts do the same for JavaScript.
"""
import math
from typing import Any, List, NamedTuple, Optional, Sequence

from .alike import describe_difference, difference_of
from .batch import Run, now
from .codec import Payload, decode_payload
from .errors import ModeletError
from .examples import payload_of, run_payloads
from .modelet import LoadedModelet

MOST_EXAMPLES = 8


async def proven(modelet: LoadedModelet, batch_size: int, run: Run) -> LoadedModelet:
    """
    Returns the modelet. Its items run one by one if the proof fails. A stage without a batcher may get one while the
    worker runs, so two examples run together even then.
    """
    if not modelet.must_prove:
        return modelet
    payloads = _payloads_of(modelet, max(2, min(batch_size, MOST_EXAMPLES)), run)
    why = await _Trial(modelet, run).why_not(payloads)
    return modelet if why is None else modelet._replace(singly=f"items run one by one: {why}")


def _payloads_of(modelet: LoadedModelet, most: int, run: Run) -> List[Payload]:
    """Returns the first examples, as many as a batch takes. The warm-up reports an example that cannot be encoded."""
    payloads: List[Payload] = []
    size = 0
    for example in range(len(modelet.examples)):
        try:
            payload = payload_of(modelet, example, run)
        except Exception:
            continue
        size += payload.length
        if len(payloads) == most or (len(payloads) >= 2 and size > run.max_payload_bytes):
            break
        payloads.append(payload)
    return payloads


class _Tried(NamedTuple):
    payload: Payload
    answer: Any


class _Trial:
    def __init__(self, modelet: LoadedModelet, run: Run) -> None:
        self._modelet = modelet
        self._run = run

    async def why_not(self, payloads: Sequence[Payload]) -> Optional[str]:
        """Returns why items must run one by one; None if a batch answers as single calls do."""
        tried: List[_Tried] = []
        failure = ""
        for payload in payloads:
            (answer,) = await self._answers([payload])
            # There are not as many answers as inputs, whatever the rest of them says.
            if getattr(answer, "code", None) == "bad_batch_length":
                return str(answer)
            if isinstance(answer, BaseException):
                failure = failure or f" ({answer})"
            else:
                tried.append(_Tried(payload, answer))
        if len(tried) < 2:
            return _unproven(f"no two inputs could be tried{failure}: give examples")
        first = tried[0]
        if difference_of(first.answer, (await self._answers([first.payload]))[0]):
            return "the same input has another result each time"
        for order in (tried, tried[::-1], tried[:2]):
            why = await self._difference(order)
            if why is not None:
                return why + await self._cost_of(tried)
        if any(difference_of(first.answer, one.answer) for one in tried):
            return None
        return _unproven("the inputs that were tried have the same result: give examples whose results differ")

    async def _answers(self, payloads: Sequence[Payload]) -> List[Any]:
        """Returns the results as the callers get them, or an exception for each that fails."""
        answers: List[Any] = []
        for reply in await run_payloads(self._modelet, payloads, math.inf, self._run):
            if reply.ok:
                answers.append(decode_payload(reply.codec, memoryview(b"".join(reply.parts))))
            else:
                answers.append(reply.error or ModeletError("modelet_failed", "the result is too large"))
        return answers

    async def _difference(self, order: Sequence[_Tried]) -> Optional[str]:
        together = await self._answers([one.payload for one in order])
        for one, other in zip(order, together):
            if isinstance(other, BaseException):
                return f"several inputs fail together: {other}"
            difference = difference_of(one.answer, other)
            if difference:
                return f"results depend on other inputs of the batch: {describe_difference(difference)}"
        return None

    async def _cost_of(self, tried: Sequence[_Tried]) -> str:
        """Says how much longer single calls take than one call, if they take longer."""
        started_at = now()
        for one in tried:
            await self._answers([one.payload])
        singly_at = now()
        await self._answers([one.payload for one in tried])
        singly, together = singly_at - started_at, now() - singly_at
        if singly <= together:
            return ""
        return f" ({len(tried)} inputs take {_ms(singly)} ms one by one, {_ms(together)} ms together)"


def _ms(duration: float) -> str:
    return f"{float(f'{duration:.2g}'):g}"


def _unproven(why: str) -> str:
    return f"{why}, or set batch to True if results do not mix"
