"""The workloads of the benchmark on LitServe. Run with the name of a workload and a port."""

import os
import sys

import litserve

BATCH = 32
WAIT_S = 0.001


class Sum(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["values"]

    def predict(self, values):
        return sum(values)

    def encode_response(self, output):
        return {"sum": output}


class SumBatch(Sum):
    def batch(self, inputs):
        return inputs

    def predict(self, batch):
        return [sum(values) for values in batch]

    def unbatch(self, output):
        return output


class Vectors(litserve.LitAPI):
    def setup(self, device):
        from known import MODELS

        self.model = MODELS["vectors"](os.environ["MODEL"])

    def decode_request(self, request):
        return self.model.read(request)

    def batch(self, inputs):
        return inputs

    def predict(self, batch):
        return self.model.answer(batch)

    def unbatch(self, output):
        return output

    def encode_response(self, output):
        return output


if __name__ == "__main__":
    workload, port = sys.argv[1], int(sys.argv[2])
    batched = {"batch": SumBatch, "vectors": Vectors}.get(workload)
    api = batched(max_batch_size=BATCH, batch_timeout=WAIT_S) if batched else Sum()
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=port, num_api_servers=1, generate_client_file=False, log_level="error")
