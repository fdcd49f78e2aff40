"""
Runs one batch through a modelet: decode, preprocess, predict, postprocess, check, encode. Each item fails alone. The
engine has checked the inputs by their schema.
A result is encoded before any code of the modelet runs again, because a modelet may reuse its arrays.
src/runtime/worker/batch/run-batch.ts does the same for JavaScript.
"""
import time
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

from .attempt import Done, Failed, attempt, attempt_now, failed_or
from .binaries import Unusable
from .codec import JSON, NONE, decode_payload, encode_list, encode_payload
from .errors import ModeletError, encode_error, to_modelet_error
from .frames import HEAD, LONGEST_FRAME, Item, Reply, reply_length
from .key_states import SNAPSHOTS_ROOM, KeyStates
from .modelet import LoadedModelet
from .objects import results_of
from .parts import PartsOut, PartSteps, is_in_parts, run_parts
from .schemas import OutputCheck


class Run(NamedTuple):
    stage: str
    max_payload_bytes: int
    is_cancelled: Callable[[float], bool]
    check_output: Optional[OutputCheck] = None
    # None for examples, whose parts are not sent.
    parts: Optional[PartsOut] = None
    # Call before code of the modelet runs for these requests: it can be cancelled from then on.
    begin: Callable[[Sequence[float]], None] = lambda _ids: None
    # Whether each result is a list, whose items are encoded one by one.
    emits_lists: bool = False
    # None: the stage has no keys.
    keys: Optional[KeyStates] = None
    # Called for each call of `predict`.
    called: Callable[[], None] = lambda: None
    # Gives code of the modelet the keys of these requests.
    enter: Optional[Callable[[Sequence[float]], None]] = None


def now() -> float:
    """Returns milliseconds of the monotonic clock that all processes share. Deadlines use this clock."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) * 1000


async def run_batch(modelet: LoadedModelet, items: Sequence[Item], run: Run) -> List[Reply]:
    """Returns one reply per item, in order. Raises only exceptions that end the process, such as SystemExit."""
    if run.keys is None:
        return await _run_items(modelet, items, run)
    keys = await run.keys.begin(items)

    def enter(ids: Sequence[float]) -> None:
        run.keys.enter([keys[id_] for id_ in ids])

    def begin(ids: Sequence[float]) -> None:
        run.begin(ids)
        enter(ids)

    replies = await _run_items(modelet, items, run._replace(begin=begin, enter=enter))
    # A cancelled request must not keep the modelet from the last state of a key.
    run.begin(())
    run.keys.end(keys)
    room = SNAPSHOTS_ROOM
    settled = []
    for item, reply in zip(items, replies):
        fault, snapshot = await run.keys.left_by(item, keys[item.id], room)
        room -= len(snapshot)
        # An item that left a state which cannot be kept fails.
        kept = reply if fault is None or not reply.ok else _refusal(item, fault, run)
        settled.append(kept._replace(meta=snapshot))
    return settled


async def _run_items(modelet: LoadedModelet, items: Sequence[Item], run: Run) -> List[Reply]:
    started_at = now()
    values = [_decode(item, run, started_at) for item in items]
    if modelet.preprocess:
        values = [await _preprocess(modelet, item, value, run) for item, value in zip(items, values)]
    going = [index for index, value in enumerate(values) if not isinstance(value, Failed)]
    replies = {index: _reply(items[index], value, run) for index, value in enumerate(values) if isinstance(value, Failed)}
    inputs = [values[index] for index in going]
    results = None
    if modelet.runs_together and going:
        run.begin([items[index].id for index in going])
        results = await _predict_batch(modelet, inputs, run)
    # A call that fails gives all items one failure. Results that are failures have one each.
    together = results is not None and len(results) > 1 and isinstance(results[0], Failed) and results[0] is results[-1]
    for position, (index, value) in enumerate(zip(going, inputs)):
        result = results[position] if results is not None else await _predict_item(modelet, items[index], value, run)
        if modelet.postprocess:
            if run.enter:
                run.enter([items[index].id])
            result = await _postprocess(modelet, result, value)
        reply = _reply(items[index], _check(result, run) if run.check_output else result, run)
        reply = _owned(reply) if len(going) > 1 else reply
        replies[index] = reply._replace(together=True) if together else reply
    return _within_one_frame([replies[index] for index in range(len(items))], run)


def _owned(reply: Reply) -> Reply:
    """Returns the reply with copies of all bytes that share memory with the modelet's values. JSON shares none."""
    if reply.codec == JSON:
        return reply
    return reply._replace(parts=[part if isinstance(part, bytes) else bytes(part) for part in reply.parts])


async def _finish(modelet: LoadedModelet, result: Any, value: Any, run: Run) -> Any:
    return _check(await _postprocess(modelet, result, value) if modelet.postprocess else result, run)


async def _postprocess(modelet: LoadedModelet, result: Any, value: Any) -> Any:
    return result if isinstance(result, (Failed, Done)) else await attempt(modelet.postprocess, result, value)


def _check(result: Any, run: Run) -> Any:
    if run.check_output and not isinstance(result, (Failed, Done)):
        return attempt_now(_checked, result, run.check_output)
    return result


def _checked(result: Any, check: Callable[[Any], None]) -> Any:
    check(result)
    return result


def _decode(item: Item, run: Run, at: float) -> Any:
    if item.deadline <= at or run.is_cancelled(item.id):
        return _unwanted(item, run, at)
    try:
        return decode_payload(item.codec, item.payload)
    except Exception as raised:
        return Failed(raised)


async def _preprocess(modelet: LoadedModelet, item: Item, value: Any, run: Run) -> Any:
    if isinstance(value, Failed):
        return value
    run.begin([item.id])
    return await attempt(modelet.preprocess, value)


def _unwanted(item: Item, run: Run, at: float) -> Optional[Failed]:
    """Returns the failure if the item was cancelled or its deadline has passed, or None if the item should run."""
    if run.is_cancelled(item.id):
        return Failed(ModeletError("cancelled", "the caller went away"))
    if item.deadline <= at:
        return Failed(ModeletError("deadline_exceeded", "deadline passed before predict"))
    return None


async def _predict_item(modelet: LoadedModelet, item: Item, value: Any, run: Run) -> Any:
    # Checked again before each item, because the items before it took time.
    reason = _unwanted(item, run, now())
    if reason is not None:
        return reason
    run.begin([item.id])
    if modelet.batch:
        return (await _predict_batch(modelet, [value], run))[0]
    run.called()
    result = await attempt(modelet.predict, value)
    return await _run_parts(modelet, result, item, value, run) if is_in_parts(result) else result


async def _run_parts(modelet: LoadedModelet, source: Iterator[Any], item: Item, value: Any, run: Run) -> Any:
    steps = PartSteps(
        finish=lambda part: _finish(modelet, part, value, run),
        encode=lambda part: encode_payload(part, run.max_payload_bytes),
        unwanted=lambda: _unwanted(item, run, now()),
        out=run.parts,
        most_bytes=run.max_payload_bytes,
    )
    return await run_parts(source, item, steps)


async def _predict_batch(modelet: LoadedModelet, inputs: List[Any], run: Run) -> List[Any]:
    count = len(inputs)
    run.called()
    results = await attempt(modelet.predict, list(inputs))
    if not isinstance(results, (list, Failed)):
        results = attempt_now(_results, results)
    if isinstance(results, Failed):
        return [results] * count
    if is_in_parts(results):
        return [_in_parts()] * count
    if not _is_sequence(results):
        what = f"a value of type {type(results).__name__}"
        return [_wrong(f"predict returned {what} instead of a list of {_counted(count, 'result')}")] * count
    if len(results) != count:
        return [_wrong(f"predict returned {_counted(len(results), 'result')} for {_counted(count, 'input')}")] * count
    return [_in_parts() if is_in_parts(result) else failed_or(result) for result in results]


def _results(value: Any) -> Any:
    try:
        return results_of(value)
    except Unusable as reason:
        raise ModeletError("modelet_failed", f"predict returned {reason}: {reason.instead}") from reason


def _in_parts() -> Failed:
    message = "predict gave an iterator for a batch: only the result of a single item has parts"
    return Failed(ModeletError("modelet_failed", message))


def _counted(count: int, one: str) -> str:
    return f"{count} {one}{'' if count == 1 else 's'}"


def _wrong(message: str) -> Failed:
    return Failed(ModeletError("bad_batch_length", message))


def _is_sequence(value: Any) -> bool:
    """Whether the value is a list, tuple, array or other object with a length and items, but no text, set or dict."""
    if isinstance(value, (str, bytes, bytearray, dict, set, frozenset)):
        return False
    if getattr(value, "shape", None) == ():
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _reply(item: Item, value: Any, run: Run) -> Reply:
    if isinstance(value, Failed):
        return _refusal(item, value.error, run)
    try:
        # A result in parts goes to the caller, and not to other stages.
        encode = encode_list if run.emits_lists and not item.streams else encode_payload
        payload = encode(value.value if isinstance(value, Done) else value, run.max_payload_bytes)
    except Exception as raised:
        return _refusal(item, raised, run)
    return Reply(item.id, True, payload.codec, payload.parts, payload.length)


def _refusal(item: Item, raised: BaseException, run: Run) -> Reply:
    error = to_modelet_error(raised)
    error.stage = run.stage
    content = encode_error(error)
    return Reply(item.id, False, NONE, [content], len(content), error)


def _within_one_frame(replies: List[Reply], run: Run) -> List[Reply]:
    """Fails results, the largest first, until the replies fit one frame."""
    most = LONGEST_FRAME - HEAD.size - (SNAPSHOTS_ROOM if run.keys and run.keys.keeps_snapshots else 0)
    length = sum(map(reply_length, replies))
    if length <= most:
        return replies
    message = f"the results of the batch are {length} bytes together, the limit is {most} bytes: make its batches smaller"
    error = ModeletError("modelet_failed", message)
    error.stage = run.stage
    content = encode_error(error)
    for index in sorted(range(len(replies)), key=lambda at: -replies[at].length):
        if length <= most:
            break
        failed = Reply(replies[index].id, False, NONE, [content], len(content))
        length += reply_length(failed) - reply_length(replies[index])
        replies[index] = failed
    return replies
