"""What a case leaves behind: its model, its inputs and what Python answered."""

from pathlib import Path

import inputs
import numpy as np
import torch
import transformers as hf
from PIL import Image

# More entries than any model has labels.
ALL = 1000


class Reference:
    def __init__(self, folder):
        self.folder = folder
        self.pictures = inputs.pictures(folder)
        self.sounds = inputs.sounds(folder)
        self.cases = []

    def opened(self):
        return opened(self.pictures)

    def heard(self):
        return [inputs.samples_of(path) for path in self.sounds]

    def add(self, name, task, model, given, answers, options=None):
        files = given and isinstance(given[0], Path)
        self.cases.append(
            {
                "name": name,
                "task": task,
                "folder": str(model),
                "options": options or {},
                "inputs": [{"file": str(one)} for one in given] if files else given,
                "answers": answers,
            }
        )

    def array(self, name, values):
        """Writes numbers beside the answers, which would be long as JSON."""
        path = self.folder / f"{name}.f32"
        np.asarray(values, np.float32).tofile(path)
        return str(path)


def opened(pictures):
    return [Image.open(path).convert("RGB") for path in pictures]


def pipeline(task, folder, **more):
    return hf.pipeline(task, model=str(folder), device="cpu", **more)


def normal(vectors):
    return torch.nn.functional.normalize(vectors, dim=-1).detach().tolist()


def scores_of(answer):
    return [{"label": one["label"], "score": one["score"]} for one in answer]
