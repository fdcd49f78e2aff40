"""Pictures, sounds and texts that both libraries get: the same in each run, in files as people have them."""

import wave
from pathlib import Path

import numpy as np
from PIL import Image

RATE = 16_000
# Width and height: smaller and larger than what models take, upright and across, odd and even.
SIZES = [(320, 240), (97, 203), (640, 427), (224, 224), (1232, 924), (51, 40)]
SECONDS = [0.4, 1.3, 2.9]

TEXTS = [
    "the red bird sings",
    "anna lives in paris and works there for a company that makes red bicycles , which are not cheap at all , but good",
    "no .",
    "Where is the old station of this small town ?",
    "good food , bad sport and a photo of seven green apples in the garden of the house near the river",
]
LABELS = ["a red bird", "the old town", "good food", "sport"]


def pictures(folder: Path) -> list[Path]:
    """Shapes with hard and soft edges and a grain, as PNG files: they decode alike everywhere."""
    random = np.random.default_rng(7)
    paths = []
    for at, (width, height) in enumerate(SIZES):
        y, x = np.mgrid[0:height, 0:width]
        channels = []
        for channel in range(3):
            soft = 90 + 80 * np.sin(x / width * (4 + at) + channel) * np.cos(y / height * (3 + channel))
            middle_x, middle_y = random.uniform(0.2, 0.8, 2)
            inside = np.hypot(x / width - middle_x, y / height - middle_y) < random.uniform(0.1, 0.35)
            stripes = ((x // (3 + at) + y // (5 + channel)) % 2) * 30
            channels.append(soft + 70 * inside + stripes + random.normal(0, 12, (height, width)))
        path = folder / f"picture-{at}.png"
        Image.fromarray(np.clip(np.stack(channels, -1), 0, 255).astype(np.uint8)).save(path)
        paths.append(path)
    return paths


def sounds(folder: Path) -> list[Path]:
    """Tones that glide and swell, with noise, as WAV files of 16 bits."""
    random = np.random.default_rng(8)
    paths = []
    for at, seconds in enumerate(SECONDS):
        time = np.arange(int(seconds * RATE)) / RATE
        pitch = np.cumsum(180 + 140 * at + 90 * np.sin(2 * np.pi * (1.3 + at) * time)) / RATE
        tones = sum(np.sin(2 * np.pi * part * pitch) / part for part in range(1, 9))
        swelling = 0.25 * (0.55 + 0.45 * np.sin(2 * np.pi * 2.2 * time + at))
        samples = swelling * tones + random.normal(0, 0.01, time.size)
        path = folder / f"sound-{at}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((np.clip(samples, -1, 1) * 32_767).astype("<i2").tobytes())
        paths.append(path)
    return paths


def samples_of(path: Path) -> np.ndarray:
    with wave.open(str(path), "rb") as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32_768
