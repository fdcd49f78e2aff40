"""Parts at a pace, as a model or a remote server makes them, without taking CPU."""
import asyncio


async def predict(value):
    part = "x" * value["bytes"]
    for _ in range(value["parts"]):
        await asyncio.sleep(value["ms"] / 1000)
        yield part
