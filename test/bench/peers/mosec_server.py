"""The workloads of the benchmark on mosec. Run with the name of a workload, then mosec's own options."""

import os
import sys

from mosec import Server, Worker

BATCH = 32
WAIT_MS = 1


class Sum(Worker):
    def forward(self, data):
        return {"sum": sum(data["values"])}


class SumBatch(Worker):
    def forward(self, data):
        return [{"sum": sum(item["values"])} for item in data]


class Normalise(Worker):
    def forward(self, data):
        return {"values": [value / 2 for value in data["values"]]}


class Length(Worker):
    def deserialize(self, data):
        return data

    def forward(self, data):
        return {"bytes": len(data)}


class Echo(Length):
    def forward(self, data):
        return data

    def serialize(self, data):
        return data


class Known(Worker):
    def __init__(self):
        # Only these workloads need its packages.
        from known import MODELS

        self.model = MODELS[os.environ["WORKLOAD"]](os.environ["MODEL"])

    def deserialize(self, data):
        return data if os.environ["WORKLOAD"] == "detector" else super().deserialize(data)

    def forward(self, data):
        return self.model.answer([self.model.read(one) for one in data])


def main():
    workload = sys.argv.pop(1)
    server = Server()
    if workload == "two":
        server.append_worker(Normalise, num=2)

    if workload in ("single", "lone"):
        server.append_worker(Sum, num=1)
    elif workload in ("bytes", "megabyte", "megabytes"):
        server.append_worker(Length, num=1)
    elif workload == "echo":
        server.append_worker(Echo, num=1)
    elif workload in ("vectors", "detector"):
        server.append_worker(Known, num=1, max_batch_size=BATCH, max_wait_time=WAIT_MS, env=[{"WORKLOAD": workload}])
    else:
        server.append_worker(SumBatch, num=1, max_batch_size=BATCH, max_wait_time=WAIT_MS)
    server.run()


if __name__ == "__main__":
    main()
