"""Tells which digit an 8x8 image shows: the network of the quick start, by numpy where there is numpy."""
import json
import math
import os

try:
    import numpy as np
except ImportError:
    np = None

PIXELS = 64
PIXEL_MAX = 16


class InvalidImage(ValueError):
    # Makes the runtime answer 422, the caller's mistake, instead of 500.
    code = "invalid_input"


class Digits:
    batch = True
    # Run before a worker takes requests: what is slow the first time is over then.
    examples = [{"image": [0] * PIXELS}]

    def setup(self):
        """Runs once for each worker, so that no request pays for reading the weights."""
        path = os.path.join(os.path.dirname(__file__), "..", "models", "digits.json")
        with open(path, encoding="utf-8") as file:
            self.layers = json.load(file)["layers"]
        if np is not None:
            for layer in self.layers:
                layer["weights"] = np.array(layer["weights"], "f4").T
                layer["bias"] = np.array(layer["bias"], "f4")

    def preprocess(self, value):
        """Raising fails this image only."""
        image = value.get("image") if isinstance(value, dict) else None
        if not hasattr(image, "__len__") or len(image) != PIXELS:
            raise InvalidImage(f"image must be {PIXELS} numbers from 0 to {PIXEL_MAX}")
        for at, pixel in enumerate(image):
            if isinstance(pixel, (bool, str)) or pixel is None or not 0 <= pixel <= PIXEL_MAX:
                raise InvalidImage(f"image must be {PIXELS} numbers from 0 to {PIXEL_MAX}, got {pixel!r} at index {at}")
        return [pixel / PIXEL_MAX for pixel in image]

    def predict(self, images):
        sums = self.with_numpy(images) if np is not None else [self.without(image) for image in images]
        return [result(row) for row in sums]

    def with_numpy(self, images):
        """All images of the batch at once, which is what makes batches worth it."""
        values = np.array(images, "f4")
        for layer in self.layers:
            values = values @ layer["weights"] + layer["bias"]
            if layer["activation"] == "relu":
                values = np.maximum(values, 0)
        return values.tolist()

    def without(self, values):
        for layer in self.layers:
            rows = zip(layer["weights"], layer["bias"])
            values = [bias + sum(map(lambda a, b: a * b, weights, values)) for weights, bias in rows]
            if layer["activation"] == "relu":
                values = [max(value, 0) for value in values]
        return values


def result(sums):
    """Subtracting the largest value changes no quotient and keeps exp() from overflowing."""
    largest = max(sums)
    powers = [math.exp(value - largest) for value in sums]
    total = sum(powers)
    return {"digit": sums.index(largest), "probabilities": [power / total for power in powers]}
