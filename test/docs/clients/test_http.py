"""requests and httpx of PyPI before endpoints. ENDPOINTS is the address of Node-RED."""
import asyncio
import json
import os
import unittest
from pathlib import Path

import httpx
import msgpack
import numpy as np
import requests

URL = os.environ["ENDPOINTS"]
KEY = "key-of-the-client-for-tests"
SAMPLES = json.loads(Path(os.environ["DIGITS"]).read_text())["images"][:10]
MSGPACK = {"Content-Type": "application/msgpack"}
# The example Tokens as server-sent events gives the same words for the same three.
TOKENS = {"prompt": "the river", "words": 5, "seed": 7, "wordMs": 0}


def unpacked(answer):
    value = msgpack.unpackb(answer.content)
    if isinstance(value, dict) and set(value) == {"data", "dims", "type"}:
        return np.frombuffer(value["data"], value["type"]).reshape(value["dims"])
    return value


def events_of(lines):
    """The events of a text/event-stream, from its lines."""
    name = "message"
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
        elif line == "":
            name = "message"


class Calls:
    """The same calls by both libraries. `self.client` is a session of requests, or a client of httpx."""

    def test_json(self):
        for sample in SAMPLES:
            answer = self.client.post(f"{URL}/predict/digits", json={"image": sample["image"]})
            self.assertEqual(answer.status_code, 200)
            self.assertTrue(answer.headers["Content-Type"].startswith("application/json"))
            self.assertEqual(answer.json()["digit"], sample["label"])
            self.assertAlmostEqual(sum(answer.json()["probabilities"]), 1, 3)

    def test_values_of_json(self):
        for value in [5, 0.5, "text", "é", True, None, [], [1, [2, None]], {"a": {"b": "c"}}]:
            with self.subTest(value=value):
                answer = self.client.post(f"{URL}/same", json={"is": value}, headers={"Accept": "application/json"})
                self.assertEqual((answer.status_code, answer.json()), (200, {"is": value}))
        bare = self.client.post(f"{URL}/same", json="text", headers={"Accept": "application/json"})
        self.assertEqual(bare.json(), "text")

    def test_error_status(self):
        refused = [(-1, 422, "invalid_input", "number must be 0 or more, got -1"), (13, 500, "modelet_failed", "afraid")]
        for number, status, code, message in refused:
            headers = {"X-Request-Id": f"of-{status}"}
            answer = self.client.post(f"{URL}/examples/square-root", json={"number": number}, headers=headers)
            error = answer.json()["error"]
            self.assertEqual((answer.status_code, error["code"]), (status, code))
            self.assertEqual((error["stage"], error["requestId"]), ("square root over HTTP", f"of-{status}"))
            self.assertEqual(answer.headers["X-Request-Id"], f"of-{status}")
            self.assertIn(message, error["message"])
            with self.assertRaises(self.StatusError):
                answer.raise_for_status()
        self.assertEqual(self.client.post(f"{URL}/examples/square-root", json={"number": 9}).json(), 3)

    def test_body_that_is_no_json(self):
        headers = {"Content-Type": "application/json"}
        answer = self.client.post(f"{URL}/same", headers=headers, **{self.RAW: b'{"is": '})
        self.assertEqual((answer.status_code, answer.json()["error"]["code"]), (400, "bad_request"))

    def test_form_is_refused(self):
        answer = self.client.post(f"{URL}/same", data={"is": "5"})
        self.assertEqual((answer.status_code, answer.json()["error"]["code"]), (415, "unsupported_media"))

    def test_msgpack(self):
        sent = {"bytes": b"\x00\xff", "big": 2**63, "text": "é", "none": None}
        answer = self.client.post(f"{URL}/same", headers=MSGPACK, **{self.RAW: msgpack.packb(sent)})
        self.assertEqual((answer.status_code, answer.headers["Content-Type"]), (200, "application/msgpack"))
        self.assertEqual(msgpack.unpackb(answer.content), sent)

    def test_error_in_msgpack(self):
        body = {self.RAW: msgpack.packb({"number": -1})}
        answer = self.client.post(f"{URL}/examples/square-root", headers=MSGPACK, **body)
        self.assertEqual((answer.status_code, msgpack.unpackb(answer.content)["error"]["code"]), (422, "invalid_input"))

    def test_typed_arrays(self):
        asked = {"rows": 2, "columns": 3}
        answer = self.client.post(f"{URL}/matrix", json=asked)
        self.assertEqual(answer.json(), [[0, 0.5, 1], [1.5, 2, 2.5]])
        answer = self.client.post(f"{URL}/matrix", json=asked, headers={"Accept": "application/msgpack"})
        matrix = unpacked(answer)
        self.assertEqual((matrix.dtype, matrix.shape), (np.float32, (2, 3)))
        np.testing.assert_array_equal(matrix, np.arange(6, dtype=np.float32).reshape(2, 3) / 2)

    def test_keys(self):
        for headers in [{"X-API-Key": KEY}, {"Authorization": f"Bearer {KEY}"}]:
            answer = self.client.post(f"{URL}/keyed", json={"a": 1}, headers=headers)
            self.assertEqual((answer.status_code, answer.json()), (200, {"a": 1}))
        for headers in [{}, {"X-API-Key": "a-key-that-nobody-knows"}]:
            answer = self.client.post(f"{URL}/keyed", json={"a": 1}, headers=headers)
            self.assertEqual((answer.status_code, answer.json()["error"]["code"]), (401, "unauthorized"))
            self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")

    def test_time_limit(self):
        answer = self.client.post(f"{URL}/endless", json={}, headers={"timeout": "50"})
        self.assertEqual((answer.status_code, answer.json()["error"]["code"]), (408, "deadline_exceeded"))

    def assert_left(self, begin):
        """`begin` begins a stream of the only worker of its stage, and leaves it after the first line."""
        for _ in range(5):
            self.assertEqual(json.loads(begin()), {"part": "word 1"})

    def assert_events(self, lines):
        *words, (last, end) = events_of(lines)
        self.assertEqual([name for name, _ in words], ["message"] * TOKENS["words"])
        self.assertTrue(all(isinstance(word, str) for _, word in words))
        self.assertEqual((last, end), ("done", {"words": TOKENS["words"], "seed": TOKENS["seed"]}))

    def assert_lines(self, lines):
        parsed = [json.loads(line) for line in lines]
        self.assertEqual(parsed[:-1], [{"part": 1}, {"part": {"two": 2}}])
        self.assertEqual(parsed[-1]["error"]["code"], "modelet_failed")


class WithRequests(Calls, unittest.TestCase):
    StatusError = requests.HTTPError
    RAW = "data"

    def setUp(self):
        self.client = requests.Session()
        self.addCleanup(self.client.close)

    def test_events(self):
        with self.client.post(f"{URL}/tokens", json=TOKENS, stream=True) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
            self.assert_events(answer.iter_lines(decode_unicode=True))

    def test_lines_and_an_error_half_way(self):
        with self.client.post(f"{URL}/lines", json={}, stream=True) as answer:
            self.assertEqual((answer.status_code, answer.headers["Content-Type"]), (200, "application/x-ndjson"))
            self.assert_lines(answer.iter_lines())

    def test_a_client_that_leaves(self):
        with self.client.post(f"{URL}/tokens", json={**TOKENS, "words": 1000, "wordMs": 20}, stream=True) as answer:
            lines = answer.iter_lines(decode_unicode=True)
            self.assertTrue(next(lines).startswith("data: "))

    def test_streams_that_are_left_half_way(self):
        def begin():
            with self.client.post(f"{URL}/words", json={"of": "requests"}, stream=True) as answer:
                return next(answer.iter_lines(decode_unicode=True))

        self.assert_left(begin)


class WithHttpx(Calls, unittest.TestCase):
    StatusError = httpx.HTTPStatusError
    RAW = "content"

    def setUp(self):
        self.client = httpx.Client(timeout=30)
        self.addCleanup(self.client.close)

    def test_events(self):
        with self.client.stream("POST", f"{URL}/tokens", json=TOKENS) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
            self.assert_events(answer.iter_lines())

    def test_lines_and_an_error_half_way(self):
        with self.client.stream("POST", f"{URL}/lines", json={}) as answer:
            self.assertEqual((answer.status_code, answer.headers["Content-Type"]), (200, "application/x-ndjson"))
            self.assert_lines(answer.iter_lines())

    def test_streams_that_are_left_half_way(self):
        def begin():
            with self.client.stream("POST", f"{URL}/words", json={"of": "httpx"}) as answer:
                return next(answer.iter_lines())

        self.assert_left(begin)

    def test_streams_that_are_left_half_way_with_asyncio(self):
        async def first_line(client):
            async with client.stream("POST", f"{URL}/words", json={"of": "httpx with asyncio"}) as answer:
                async for line in answer.aiter_lines():
                    return line

        async def begin():
            async with httpx.AsyncClient(timeout=30) as client:
                return await first_line(client)

        self.assert_left(lambda: asyncio.run(begin()))

    def test_streams_that_are_cancelled_half_way(self):
        async def begin():
            lines = []

            async def read(client):
                async with client.stream("POST", f"{URL}/words", json={"of": "httpx cancelled"}) as answer:
                    async for line in answer.aiter_lines():
                        lines.append(line)
                        begun.set()

            begun = asyncio.Event()
            async with httpx.AsyncClient(timeout=30) as client:
                reading = asyncio.create_task(read(client))
                await begun.wait()
                reading.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await reading
            return lines[0]

        self.assert_left(lambda: asyncio.run(begin()))

    def test_many_at_once(self):
        async def ask_all():
            async with httpx.AsyncClient(timeout=30) as client:
                asked = [client.post(f"{URL}/predict/digits", json={"image": one["image"]}) for one in SAMPLES]
                return [answer.json()["digit"] for answer in await asyncio.gather(*asked)]

        self.assertEqual(asyncio.run(ask_all()), [sample["label"] for sample in SAMPLES])


if __name__ == "__main__":
    unittest.main()
