"""Trains the quick-start digit classifier and writes its weights, its test images and the hashes of its training rows.

Run it from anywhere, with the versions README.md names:  python assets/models/train_digits.py
"""

import hashlib
import json
import random
import warnings
from pathlib import Path

import numpy
import sklearn
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

SEED = 1998
HELD_OUT_SHARE = 0.2
TEST_IMAGES_PER_DIGIT = 10
PIXEL_MAX = 16
EPOCHS = 100

SOURCE = (
    'E. Alpaydin & C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998, '
    'https://doi.org/10.24432/C50P49 (the test part, 1797 images, as bundled with scikit-learn)'
)
LICENCE = 'CC BY 4.0, https://creativecommons.org/licenses/by/4.0/'

MODELS = Path(__file__).resolve().parent
DATA = MODELS.parent / 'data'


def pixel_hash(image):
    """The identity of an image: two rows are the same image when all 64 pixels agree, whatever their labels."""
    return hashlib.sha256(','.join(map(str, image)).encode('ascii')).hexdigest()[:16]


def load_rows():
    """All images as (pixels, label), the first of each set of identical ones."""
    digits = load_digits()
    rows = {}
    for pixels, label in zip(digits.data, digits.target):
        image = [int(pixel) for pixel in pixels]
        rows.setdefault(pixel_hash(image), (image, int(label)))
    return list(rows.values())


def split(rows):
    """Training, held-out and test rows. Test rows are part of the held-out ones; no model is asked which to take."""
    generator = random.Random(SEED)
    train, held_out, test = [], [], []
    for digit in range(10):
        of_digit = [row for row in rows if row[1] == digit]
        generator.shuffle(of_digit)
        count = round(len(of_digit) * HELD_OUT_SHARE)
        held_out += of_digit[:count]
        test += of_digit[:TEST_IMAGES_PER_DIGIT]
        train += of_digit[count:]
    # Mixed, so that any short run of the test images has several digits in it.
    generator.shuffle(train)
    generator.shuffle(test)
    return train, held_out, test


def to_arrays(rows):
    images = numpy.array([image for image, _ in rows], dtype=numpy.float64) / PIXEL_MAX
    return images, numpy.array([label for _, label in rows])


def train_layers(rows):
    """Fits the network, with the settings that did best in a cross-validation on these training rows."""
    network = MLPClassifier(
        hidden_layer_sizes=(64,),
        activation='relu',
        alpha=0.0001,
        batch_size=32,
        learning_rate_init=0.003,
        max_iter=EPOCHS,
        random_state=SEED,
    )
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # One thread, so that sums are always taken in the same order. The epoch limit is meant, not a failure.
        warnings.simplefilter('ignore', ConvergenceWarning)
        network.fit(*to_arrays(rows))
    activations = ['relu'] * (len(network.coefs_) - 1) + ['softmax']
    # scikit-learn keeps [in][out]; a row for each neuron, [out][in], is what a forward pass reads in order.
    return [
        {'activation': activation, 'bias': rounded(bias), 'weights': [rounded(row) for row in weights.T]}
        for weights, bias, activation in zip(network.coefs_, network.intercepts_, activations)
    ]


def rounded(values):
    """Five significant digits, at most seven decimals: full precision changes no answer and doubles the file."""
    return [round(float(f'{value:.5g}'), 7) + 0.0 for value in values]


def accuracy(layers, rows):
    """Measured with the rounded weights, which are the ones that get used."""
    values, labels = to_arrays(rows)
    for layer in layers:
        values = values @ numpy.array(layer['weights']).T + numpy.array(layer['bias'])
        if layer['activation'] == 'relu':
            values = numpy.maximum(values, 0)
    # Softmax keeps the order, so the largest value is already the answer.
    return round(float((values.argmax(axis=1) == labels).mean()), 4)


def compact(value):
    return json.dumps(value, separators=(',', ':'))


def write(path, header, lists):
    """Writes JSON with one line for each header field and for each item of each list."""
    fields = [f'{json.dumps(key)}: {json.dumps(value)}' for key, value in header.items()]
    for key, lines in lists.items():
        fields.append(f'{json.dumps(key)}: [\n' + ',\n'.join(lines) + '\n]')
    path.write_text('{\n' + ',\n'.join(fields) + '\n}\n', encoding='ascii', newline='\n')


def main():
    train, held_out, test = split(load_rows())
    hashes = sorted(pixel_hash(image) for image, _ in train)
    assert not set(hashes) & {pixel_hash(image) for image, _ in held_out}, 'a training row is also held out'

    layers = train_layers(train)
    origin = {'source': SOURCE, 'licence': LICENCE}
    header = {
        'name': 'digits',
        **origin,
        'changes': 'a network trained on part of the images, pixels scaled from 0..16 to 0..1',
        'seed': SEED,
        'sklearn': sklearn.__version__,
        'numpy': numpy.__version__,
        'trainingRows': len(train),
        'heldOutRows': len(held_out),
        'accuracy': accuracy(layers, held_out),
        'testRows': len(test),
        'testAccuracy': accuracy(layers, test),
    }
    write(MODELS / 'digits.json', header, {
        'layers': [
            f'{{"activation":{compact(layer["activation"])},"bias":{compact(layer["bias"])},"weights":[\n'
            + ',\n'.join(map(compact, layer['weights'])) + '\n]}'
            for layer in layers
        ],
    })
    write(DATA / 'digits-test.json', origin, {
        'images': [compact({'image': image, 'label': label}) for image, label in test],
    })
    # The sample lets a reader of the hashes check that it computes them the same way.
    sample = next(image for image, _ in train if pixel_hash(image) == hashes[0])
    recipe = 'the first 16 hex characters of the sha256 of the 64 pixels joined by commas; sample has the first hash'
    write(DATA / 'digits-train-hashes.json', {**origin, 'recipe': recipe, 'sample': sample}, {
        'hashes': [compact(hashes[at:at + 6])[1:-1] for at in range(0, len(hashes), 6)],
    })
    print(f'{len(train)} training rows; {header["accuracy"]:.2%} of {len(held_out)} held-out rows right, '
          f'{header["testAccuracy"]:.2%} of the {len(test)} test images')


if __name__ == '__main__':
    main()
