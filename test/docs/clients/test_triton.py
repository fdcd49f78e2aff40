"""tritonclient of PyPI, its client for asyncio too, before models of the KServe v2 protocol. ENDPOINTS is the address of Node-RED."""
import asyncio
import json
import os
import unittest
from pathlib import Path

import numpy as np
import tritonclient.http as http
import tritonclient.http.aio as aio
from tritonclient.utils import InferenceServerException

HOST = os.environ["ENDPOINTS"].removeprefix("http://")
KEY = {"Authorization": "Bearer key-of-the-client-for-tests"}
DIGITS = "predict/digits-onnx"
SAMPLES = json.loads(Path(os.environ["DIGITS"]).read_text())["images"][:10]
KINDS = {
    "BOOL": np.array([[True, False, True]]),
    "UINT8": np.array([0, 255], np.uint8),
    "UINT16": np.array([0, 65535], np.uint16),
    "UINT32": np.array([0, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 127], np.int8),
    "INT16": np.array([-32768, 32767], np.int16),
    "INT32": np.array([-(2**31), 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 2**63 - 1], np.int64),
    "FP16": np.array([[1.5], [-0.25]], np.float16),
    "FP32": np.array([[[1.5, -2.25]]], np.float32),
    "FP64": np.array([0.1, -1e300], np.float64),
    "BYTES": np.array(["a", "", "é"], np.object_),
}
BEYOND_JSON = {"FP16", "UINT64", "INT64"}


def tensor(name, datatype, values, binary=True):
    made = http.InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values, binary_data=binary)
    return made


def texts(values):
    """BYTES in binary come as bytes, and in JSON as text."""
    return [value.decode() if isinstance(value, bytes) else value for value in values.tolist()]


class Digits(unittest.TestCase):
    """The example Digits by ONNX, whose runtime has got the KServe v2 path "/"."""

    def setUp(self):
        self.client = http.InferenceServerClient(HOST)
        self.addCleanup(self.client.close)

    def test_ready(self):
        self.assertIs(self.client.is_server_live(), True)
        self.assertIs(self.client.is_server_ready(), True)
        self.assertIs(self.client.is_model_ready(DIGITS), True)
        self.assertIs(self.client.is_model_ready(DIGITS, "1"), True)
        self.assertIs(self.client.is_model_ready(DIGITS, "2"), False)
        self.assertIs(self.client.is_model_ready("nothing"), False)

    def test_metadata(self):
        server = self.client.get_server_metadata()
        self.assertEqual((server["name"], server["extensions"]), ("modelet", ["binary_tensor_data", "sequence"]))
        model = self.client.get_model_metadata(DIGITS)
        self.assertEqual((model["name"], model["versions"]), (DIGITS, ["1"]))
        self.assertEqual(model["inputs"], [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}])

    def test_infer(self):
        for sample in SAMPLES:
            image = np.array(sample["image"], np.float32).reshape(1, 8, 8)
            for binary in (True, False):
                with self.subTest(digit=sample["label"], binary=binary):
                    output = http.InferRequestedOutput("label", binary_data=binary)
                    score = http.InferRequestedOutput("score", binary_data=binary)
                    inputs = [tensor("image", "FP32", image, binary)]
                    result = self.client.infer(DIGITS, inputs, outputs=[output, score], request_id="mine")
                    answer = result.get_response()
                    self.assertEqual((answer["id"], answer["model_name"]), ("mine", DIGITS))
                    self.assertEqual([one["name"] for one in answer["outputs"]], ["label", "score"])
                    self.assertEqual(texts(result.as_numpy("label")), [str(sample["label"])])
                    self.assertEqual(result.as_numpy("score").dtype, np.float64)
                    self.assertGreater(result.as_numpy("score")[0], 0.5)

    def test_several_rows(self):
        images = np.array([sample["image"] for sample in SAMPLES], np.float32).reshape(-1, 8, 8)
        result = self.client.infer(DIGITS, [tensor("image", "FP32", images)])
        self.assertEqual(texts(result.as_numpy("label")), [str(sample["label"]) for sample in SAMPLES])
        self.assertEqual(result.as_numpy("scores").shape, (len(SAMPLES), 10))

    def test_many_at_once(self):
        with http.InferenceServerClient(HOST, concurrency=8) as client:
            images = [np.array(sample["image"], np.float32).reshape(1, 8, 8) for sample in SAMPLES]
            begun = [client.async_infer(DIGITS, [tensor("image", "FP32", image)]) for image in images]
            labels = [texts(one.get_result().as_numpy("label")) for one in begun]
        self.assertEqual(labels, [[str(sample["label"])] for sample in SAMPLES])

    def test_errors(self):
        image = tensor("image", "FP32", np.zeros((1, 8, 8), np.float32))
        wrong = tensor("image", "FP32", np.zeros((1, 8, 7), np.float32))
        other = http.InferRequestedOutput("other")
        refused = [
            ("404", r'no model "nothing"', lambda: self.client.infer("nothing", [image])),
            ("404", r'of version "2"', lambda: self.client.infer(DIGITS, [image], model_version="2")),
            ("404", r'no model "nothing"', lambda: self.client.get_model_metadata("nothing")),
            ("400", r'no output "other"', lambda: self.client.infer(DIGITS, [image], outputs=[other])),
            ("422", r"image", lambda: self.client.infer(DIGITS, [wrong])),
        ]
        for status, message, ask in refused:
            with self.subTest(status=status, message=message), self.assertRaises(InferenceServerException) as caught:
                ask()
            self.assertEqual(caught.exception.status(), status)
            self.assertRegex(caught.exception.message(), message)


class Tensors(unittest.TestCase):
    """A model that gives its inputs back, below a path of its own, for clients with a key."""

    def setUp(self):
        self.client = http.InferenceServerClient(f"{HOST}/own")
        self.addCleanup(self.client.close)

    def assert_same(self, inputs, sent, **more):
        # A copy: the client adds its own headers.
        result = self.client.infer("echo", inputs, headers=dict(KEY), **more)
        for name, values in sent.items():
            got = result.as_numpy(name)
            self.assertEqual(got.shape, values.shape, name)
            if name == "BYTES":
                self.assertEqual(texts(got), texts(values))
            else:
                self.assertEqual(got.dtype, values.dtype, name)
                np.testing.assert_array_equal(got, values, name)
        return result

    def test_every_datatype_in_binary(self):
        self.assert_same([tensor(kind, kind, values) for kind, values in KINDS.items()], KINDS)

    def test_datatypes_in_json(self):
        sent = {kind: values for kind, values in KINDS.items() if kind not in BEYOND_JSON}
        inputs = [tensor(kind, kind, values, binary=False) for kind, values in sent.items()]
        outputs = [http.InferRequestedOutput(kind, binary_data=False) for kind in sent]
        result = self.assert_same(inputs, sent, outputs=outputs)
        for output in result.get_response()["outputs"]:
            self.assertIn("data", output)

    def test_some_tensors_in_json_and_others_in_binary(self):
        sent = {kind: KINDS[kind] for kind in ("FP32", "INT32", "BYTES")}
        inputs = [tensor(kind, kind, values, binary=kind != "INT32") for kind, values in sent.items()]
        outputs = [http.InferRequestedOutput(kind, binary_data=kind != "FP32") for kind in sent]
        self.assert_same(inputs, sent, outputs=outputs)

    def test_compressed(self):
        sent = {"FP32": np.arange(10_000, dtype=np.float32)}
        for coding in ("gzip", "deflate"):
            with self.subTest(coding=coding):
                inputs = [tensor("FP32", "FP32", sent["FP32"])]
                codings = {"request_compression_algorithm": coding, "response_compression_algorithm": coding}
                self.assert_same(inputs, sent, **codings)

    def test_keys(self):
        one = [tensor("FP32", "FP32", KINDS["FP32"])]
        for headers in (None, {"X-API-Key": "a-key-that-nobody-knows"}):
            with self.subTest(headers=headers), self.assertRaises(InferenceServerException) as caught:
                self.client.infer("echo", one, headers=headers)
            self.assertEqual(caught.exception.status(), "401")
        self.assertIs(self.client.is_model_ready("echo"), True)

    def test_time_limit(self):
        late = [tensor("late", "FP32", KINDS["FP32"])]
        with self.assertRaises(InferenceServerException) as caught:
            self.client.infer("echo", late, headers=dict(KEY), timeout=100_000)
        self.assertEqual(caught.exception.status(), "408")


class WithAsyncio(unittest.IsolatedAsyncioTestCase):
    """The client for asyncio. It has the same calls, and tensors of the same form."""

    async def asyncSetUp(self):
        self.client = aio.InferenceServerClient(HOST)
        self.addAsyncCleanup(self.client.close)
        self.own = aio.InferenceServerClient(f"{HOST}/own")
        self.addAsyncCleanup(self.own.close)

    async def test_ready_and_metadata(self):
        self.assertIs(await self.client.is_server_ready(), True)
        self.assertIs(await self.client.is_model_ready(DIGITS), True)
        self.assertIs(await self.client.is_model_ready("nothing"), False)
        model = await self.client.get_model_metadata(DIGITS)
        self.assertEqual(model["inputs"], [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}])

    async def test_many_at_once(self):
        for binary in (True, False):
            with self.subTest(binary=binary):
                images = [np.array(sample["image"], np.float32).reshape(1, 8, 8) for sample in SAMPLES]
                outputs = [http.InferRequestedOutput("label", binary_data=binary)]
                begun = [
                    self.client.infer(DIGITS, [tensor("image", "FP32", image, binary)], outputs=outputs)
                    for image in images
                ]
                labels = [texts(result.as_numpy("label")) for result in await asyncio.gather(*begun)]
                self.assertEqual(labels, [[str(sample["label"])] for sample in SAMPLES])

    async def test_every_datatype(self):
        inputs = [tensor(kind, kind, values) for kind, values in KINDS.items()]
        result = await self.own.infer("echo", inputs, headers=dict(KEY))
        for kind, values in KINDS.items():
            got = result.as_numpy(kind)
            if kind == "BYTES":
                self.assertEqual(texts(got), texts(values))
            else:
                self.assertEqual(got.dtype, values.dtype, kind)
                np.testing.assert_array_equal(got, values, kind)

    async def test_compressed(self):
        sent = np.arange(10_000, dtype=np.float32)
        for coding in ("gzip", "deflate"):
            with self.subTest(coding=coding):
                codings = {"request_compression_algorithm": coding, "response_compression_algorithm": coding}
                inputs = [tensor("FP32", "FP32", sent)]
                result = await self.own.infer("echo", inputs, headers=dict(KEY), **codings)
                np.testing.assert_array_equal(result.as_numpy("FP32"), sent)

    async def test_errors(self):
        image = tensor("image", "FP32", np.zeros((1, 8, 8), np.float32))
        wrong = tensor("image", "FP32", np.zeros((1, 8, 7), np.float32))
        for status, name, asked in [("404", "nothing", image), ("422", DIGITS, wrong)]:
            with self.subTest(status=status), self.assertRaises(InferenceServerException) as caught:
                await self.client.infer(name, [asked])
            self.assertEqual(caught.exception.status(), status)
        with self.assertRaises(InferenceServerException) as caught:
            await self.own.infer("echo", [tensor("FP32", "FP32", KINDS["FP32"])])
        self.assertEqual(caught.exception.status(), "401")

    async def test_a_client_that_leaves(self):
        late = [tensor("late", "FP32", KINDS["FP32"])]
        for _ in range(3):
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.own.infer("echo", late, headers=dict(KEY)), 0.2)
        # The only worker runs none of them any more.
        result = await self.own.infer("echo", [tensor("FP32", "FP32", KINDS["FP32"])], headers=dict(KEY))
        np.testing.assert_array_equal(result.as_numpy("FP32"), KINDS["FP32"])


if __name__ == "__main__":
    unittest.main()
