"""The workloads of the benchmark on mosec. Run with the name of a workload, then mosec's own options."""

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


def main():
    workload = sys.argv.pop(1)
    server = Server()
    if workload == "two":
        server.append_worker(Normalise, num=2)

    if workload in ("single", "lone"):
        server.append_worker(Sum, num=1)
    elif workload == "bytes":
        server.append_worker(Length, num=1)
    else:
        server.append_worker(SumBatch, num=1, max_batch_size=BATCH, max_wait_time=WAIT_MS)
    server.run()


if __name__ == "__main__":
    main()
