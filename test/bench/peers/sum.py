"""The model of the benchmark against peers."""


def predict(items):
    return [{"sum": sum(item["values"])} for item in items]
