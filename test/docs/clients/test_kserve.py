"""
KServe's SDK of PyPI, its client for HTTP, before models of the KServe v2 protocol. ENDPOINTS is the address of Node-RED.
Each call of it works, except those for other protocols: explanations and models of v1, and gRPC.
"""
import asyncio
import importlib.util
import os
import sys
import types
import unittest

# The package itself imports its server and a client of Kubernetes, which are not installed.
PACKAGE = types.ModuleType("kserve")
PACKAGE.__path__ = list(importlib.util.find_spec("kserve").submodule_search_locations)
sys.modules["kserve"] = PACKAGE

import httpx
import numpy as np
from kserve.errors import UnsupportedProtocol
from kserve.inference_client import InferenceRESTClient, RESTConfig
from kserve.protocol.infer_type import InferInput, InferRequest, RequestedOutput

URL = os.environ["ENDPOINTS"]
EXAMPLES = f"{URL}/examples"
KEY = {"Authorization": "Bearer key-of-the-client-for-tests"}
DIGITS = "predict/digits-onnx"
A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.full((1, 16), -1, np.int32)
KINDS = {
    "BOOL": np.array([[True, False, True]]),
    "UINT8": np.array([0, 255], np.uint8),
    "INT32": np.array([-(2**31), 2**31 - 1], np.int32),
    "INT64": np.array([-(2**53) + 1, 2**53 - 1], np.int64),
    "FP32": np.array([[[1.5, -2.25]]], np.float32),
    "FP64": np.array([0.1, -1e300, -0.0], np.float64),
}
HALF = {"FP16": np.array([[1.5], [-0.25]], np.float16)}


def tensor(name, datatype, values, binary):
    made = InferInput(name, list(values.shape), datatype)
    made.set_data_from_numpy(values, binary_data=binary)
    return made


class Calls(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = InferenceRESTClient(RESTConfig(protocol="v2"))
        self.addAsyncCleanup(self.client.close)

    async def test_readiness(self):
        self.assertIs(await self.client.is_server_live(URL), True)
        self.assertIs(await self.client.is_server_ready(URL), True)
        self.assertIs(await self.client.is_model_ready(URL, DIGITS), True)
        self.assertIs(await self.client.is_model_ready(httpx.URL(EXAMPLES), "simple"), True)
        self.assertIs(await self.client.is_model_ready(URL, "nothing"), False)

    async def test_a_request_as_a_dict(self):
        asked = {"inputs": [{"name": "INPUT0", "shape": [1], "datatype": "BYTES", "data": ["abc"]}]}
        headers = {}
        result = await self.client.infer(EXAMPLES, asked, model_name="image", response_headers=headers)
        self.assertEqual(result.model_name, "image")
        self.assertEqual({output.name: output.data for output in result.outputs}, {"INPUT0": ["abc"], "SIZE": [3.0]})
        self.assertIn("x-request-id", headers)

    async def test_tensors_in_json_and_in_binary(self):
        for binary in (False, True):
            with self.subTest(binary=binary):
                inputs = [tensor("INPUT0", "INT32", A, binary), tensor("INPUT1", "INT32", B, binary)]
                wanted = [RequestedOutput(name, {"binary_data": binary}) for name in ("OUTPUT1", "OUTPUT0")]
                asked = InferRequest("simple", inputs, request_id="mine", request_outputs=wanted)
                result = await self.client.infer(EXAMPLES, asked, model_name="simple")
                self.assertEqual((result.id, [output.name for output in result.outputs]), ("mine", ["OUTPUT1", "OUTPUT0"]))
                np.testing.assert_array_equal(result.outputs[0].as_numpy(), A - B)
                np.testing.assert_array_equal(result.outputs[1].as_numpy(), A + B)

    async def test_every_datatype(self):
        for binary in (False, True):
            sent = {**KINDS, **(HALF if binary else {})}
            inputs = [tensor(name, name, values, binary) for name, values in sent.items()]
            more = {"parameters": {"binary_data_output": binary}}
            result = await self.client.infer(f"{URL}/own", InferRequest("echo", inputs, **more), "echo", headers=dict(KEY))
            for output in result.outputs:
                got = output.as_numpy()
                self.assertEqual(got.dtype, sent[output.name].dtype, output.name)
                self.assertEqual(got.tobytes(), sent[output.name].tobytes(), output.name)

    async def test_many_at_once(self):
        image = tensor("image", "FP32", np.zeros((2, 8, 8), np.float32), True)
        begun = [self.client.infer(URL, InferRequest(DIGITS, [image]), DIGITS) for _ in range(8)]
        for result in await asyncio.gather(*begun):
            self.assertEqual([output.shape for output in result.outputs if output.name in ("label", "scores")], [[2], [2, 10]])

    async def test_errors_have_their_text(self):
        wrong = InferRequest("simple", [tensor("INPUT0", "INT32", A, True)])
        for status, message, url, model in [
            (404, 'no model "nothing"', EXAMPLES, "nothing"),
            (500, "INPUT1|undefined", EXAMPLES, "simple"),
            (401, "key", f"{URL}/own", "echo"),
        ]:
            with self.subTest(status=status), self.assertRaisesRegex(httpx.HTTPStatusError, message) as caught:
                await self.client.infer(url, wrong, model)
            self.assertEqual(caught.exception.response.status_code, status)

    async def test_a_time_limit_of_the_client(self):
        late = InferRequest("echo", [tensor("late", "FP32", KINDS["FP32"], True)])
        with self.assertRaises(httpx.TimeoutException):
            await self.client.infer(f"{URL}/own", late, "echo", headers=dict(KEY), timeout=0.3)

    async def test_other_protocols(self):
        with self.assertRaises(UnsupportedProtocol):
            await self.client.explain(URL, DIGITS, {})
        async with InferenceRESTClient(RESTConfig(protocol="v1")) as client:
            with self.assertRaisesRegex(httpx.HTTPStatusError, "404"):
                await client.infer(URL, {"instances": []}, model_name=DIGITS)


if __name__ == "__main__":
    unittest.main()
