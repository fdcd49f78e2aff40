"""The known models of the benchmark as code in Python: the same ONNX files, one thread."""

import io
import json
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image
from tokenizers import Tokenizer

LEAST_SCORE = 0.5


def session(folder):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"), options)


class Vectors:
    """The mean of the vectors of a text's tokens, with the length 1."""

    def __init__(self, folder):
        self.session = session(Path(folder))
        self.tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
        self.tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")

    def read(self, request):
        return request["text"]

    def answer(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        ids = np.array([one.ids for one in encoded], np.int64)
        (tokens,) = self.session.run(None, {"input_ids": ids, "attention_mask": mask})
        counted = mask[:, :, None].astype(np.float32)
        vectors = (tokens * counted).sum(1) / counted.sum(1)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist()


class Detector:
    """The objects of a picture, the highest score first."""

    def __init__(self, folder):
        self.session = session(Path(folder))
        self.labels = json.loads((Path(folder) / "config.json").read_text())["id2label"]
        size = json.loads((Path(folder) / "preprocessor_config.json").read_text())["size"]
        self.size = (size["width"], size["height"])

    def read(self, request):
        picture = Image.open(io.BytesIO(request)).convert("RGB")
        pixels = np.asarray(picture.resize(self.size, Image.Resampling.BILINEAR), np.float32) / 255
        return picture.size, np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def answer(self, pictures):
        logits, boxes = self.session.run(None, {"pixel_values": np.stack([pixels for _, pixels in pictures])})
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        scores = (powers / powers.sum(-1, keepdims=True))[:, :, :-1]
        return [self.found(*one) for one in zip(scores, boxes, (size for size, _ in pictures))]

    def found(self, scores, boxes, size):
        best = scores.argmax(-1)
        found = []
        for place in np.flatnonzero(scores.max(-1) > LEAST_SCORE):
            x, y, width, height = (float(one) for one in boxes[place])
            sides = {
                "xmin": int((x - width / 2) * size[0]),
                "ymin": int((y - height / 2) * size[1]),
                "xmax": int((x + width / 2) * size[0]),
                "ymax": int((y + height / 2) * size[1]),
            }
            label = self.labels[str(best[place])]
            found.append({"label": label, "score": float(scores[place, best[place]]), "box": sides})
        return sorted(found, key=lambda one: -one["score"])


MODELS = {"vectors": Vectors, "detector": Detector}
