"""A model that costs nothing, and to which arrays are numpy's."""
import numpy  # noqa: F401


def predict(values):
    return values
