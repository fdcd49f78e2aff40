"""
The calls of the example clients that NVIDIA publishes for Triton over HTTP, before models of their names. ENDPOINTS is the
address of Node-RED. Each example works, or the reason why it does not is asserted:

simple infer, async infer, aio infer, string infer, reused objects, health and metadata   work
simple infer's statistics, model control, image client's configuration   an extension that the server lacks
system and CUDA shared memory   an extension that the server lacks
sequences   work before a model with keys, and are refused by any other
ensemble image client's classes   a refused parameter
health and metadata's texts   the server is not named "triton" and words its errors itself
"""
import os
import unittest

import numpy as np
import tritonclient.http as http
import tritonclient.http.aio as aio
from tritonclient.utils import InferenceServerException

HOST = os.environ["ENDPOINTS"].removeprefix("http://") + "/examples"
A = np.arange(16, dtype=np.int32).reshape(1, 16)
B = np.full((1, 16), -1, np.int32)
JPEG = bytes.fromhex("ffd8ffe000104a464946")


def pair(binary=(True, True), datatype="INT32", a=A, b=B):
    made = []
    for name, values, is_binary in (("INPUT0", a, binary[0]), ("INPUT1", b, binary[1])):
        made.append(http.InferInput(name, [1, 16], datatype))
        made[-1].set_data_from_numpy(values, binary_data=is_binary)
    return made


class Examples(unittest.TestCase):
    def setUp(self):
        self.client = http.InferenceServerClient(HOST, concurrency=4)
        self.addCleanup(self.client.close)

    def assert_sums(self, result):
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + B)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), A - B)

    def assert_refused(self, status, message, call, *given, **named):
        with self.assertRaises(InferenceServerException) as caught:
            call(*given, **named)
        self.assertEqual(caught.exception.status(), status)
        self.assertRegex(caught.exception.message(), message)

    def assert_lacking(self, extension, call, *given, **named):
        self.assert_refused("404", f'extension "{extension}.*is not supported', call, *given, **named)

    def test_simple_infer(self):
        outputs = [http.InferRequestedOutput("OUTPUT0"), http.InferRequestedOutput("OUTPUT1", binary_data=False)]
        for binary in ((True, True), (False, True), (False, False)):
            more = {"query_params": {"test_1": 1}, "headers": {"test": "1"}}
            self.assert_sums(self.client.infer("simple", pair(binary), outputs=outputs, **more))
            self.assert_sums(self.client.infer("simple", pair(binary)))
        for coding in ("gzip", "deflate"):
            codings = {"request_compression_algorithm": coding, "response_compression_algorithm": coding}
            self.assert_sums(self.client.infer("simple", pair(), outputs=outputs, **codings))
        self.assert_lacking("stats", self.client.get_inference_statistics, "simple")

    def test_async_infer(self):
        begun = [self.client.async_infer("simple", pair()) for _ in range(2)]
        for one in begun:
            self.assert_sums(one.get_result())

    def test_string_infer(self):
        for as_bytes in (True, False):
            numbers = [
                np.array([str(value).encode() if as_bytes else str(value) for value in values.flat], np.object_)
                for values in (A, B)
            ]
            a, b = (one.reshape(1, 16) for one in numbers)
            for binary in ((True, True), (True, False)) if as_bytes else ((False, False), (True, True)):
                result = self.client.infer("simple_string", pair(binary, "BYTES", a, b))
                for name, values in (("OUTPUT0", A + B), ("OUTPUT1", A - B)):
                    got = result.as_numpy(name)
                    self.assertEqual(got.shape, (1, 16))
                    np.testing.assert_array_equal(got.astype(np.int32), values)

    def test_reused_objects(self):
        inputs = pair()
        for binary in (True, False, True):
            inputs[0].set_data_from_numpy(A, binary_data=binary)
            outputs = [http.InferRequestedOutput(name, binary_data=binary) for name in ("OUTPUT0", "OUTPUT1")]
            self.assert_sums(self.client.infer("simple", inputs, outputs=outputs))

    def test_health_and_metadata(self):
        self.assertIs(self.client.is_server_live(query_params={"a": 1}), True)
        self.assertIs(self.client.is_server_ready(), True)
        self.assertIs(self.client.is_model_ready("simple"), True)
        self.assertEqual(self.client.get_server_metadata()["name"], "modelet")
        self.assertEqual(self.client.get_model_metadata("simple")["name"], "simple")
        self.assert_refused("404", 'no model "wrong_model_name"', self.client.get_model_metadata, "wrong_model_name")

    def test_model_control(self):
        self.assert_lacking("repository", self.client.get_model_repository_index)
        self.assert_lacking("repository", self.client.load_model, "simple")
        self.assert_lacking("repository", self.client.unload_model, "simple")

    def test_shared_memory(self):
        self.assert_lacking("systemsharedmemory", self.client.get_system_shared_memory_status)
        self.assert_lacking("systemsharedmemory", self.client.register_system_shared_memory, "r", "/r", 64)
        self.assert_lacking("systemsharedmemory", self.client.unregister_system_shared_memory)
        self.assert_lacking("cudasharedmemory", self.client.get_cuda_shared_memory_status)
        self.assert_lacking("cudasharedmemory", self.client.unregister_cuda_shared_memory)
        inputs = pair()
        inputs[0].set_shared_memory("r", 64)
        self.assert_refused("400", "shared memory is not supported", self.client.infer, "simple", inputs)

    def test_sequences(self):
        for identity in (1000, "thousand"):
            sequence = {"sequence_id": identity, "sequence_start": True, "sequence_end": False}
            self.assert_refused("400", "sequences are not supported", self.client.infer, "simple", pair(), **sequence)
        values = (11, 7, 5, 3, 2, 0, 1)
        sums = {1000: [], "thousand": []}
        for at, value in enumerate(values):
            for identity, sign in ((1000, 1), ("thousand", -1)):
                step = http.InferInput("INPUT", [1, 1], "INT32")
                step.set_data_from_numpy(np.full((1, 1), sign * value, np.int32))
                ends = {"sequence_start": at == 0, "sequence_end": at + 1 == len(values)}
                result = self.client.infer("simple_sequence", [step], sequence_id=identity, **ends)
                sums[identity].append(int(result.as_numpy("OUTPUT")[0][0]))
        expected = np.cumsum(values)
        np.testing.assert_array_equal(sums[1000], expected)
        np.testing.assert_array_equal(sums["thousand"], -expected)

    def test_images(self):
        image = http.InferInput("INPUT0", [1], "BYTES")
        image.set_data_from_numpy(np.array([JPEG], np.object_))
        result = self.client.infer("image", [image])
        self.assertEqual(result.as_numpy("SIZE").tolist(), [len(JPEG)])
        self.assertEqual(result.as_numpy("INPUT0").tolist(), [JPEG])
        classes = [http.InferRequestedOutput("SIZE", class_count=3)]
        self.assert_refused("400", "classification is not supported", self.client.infer, "image", [image], outputs=classes)
        self.assert_lacking("config", self.client.get_model_config, "image")

    def test_traces_and_logs(self):
        self.assert_lacking("trace", self.client.get_trace_settings)
        self.assert_lacking("trace/setting", self.client.get_trace_settings, "simple")
        self.assert_lacking("logging", self.client.get_log_settings)


class WithAsyncio(unittest.IsolatedAsyncioTestCase):
    async def test_aio_infer(self):
        async with aio.InferenceServerClient(HOST) as client:
            outputs = [http.InferRequestedOutput("OUTPUT0"), http.InferRequestedOutput("OUTPUT1", binary_data=False)]
            for binary in ((True, True), (False, False)):
                result = await client.infer("simple", pair(binary), outputs=outputs)
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + B)
                np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), A - B)
            with self.assertRaisesRegex(InferenceServerException, '"stats" of the model "simple" is not supported'):
                await client.get_inference_statistics("simple")


if __name__ == "__main__":
    unittest.main()
