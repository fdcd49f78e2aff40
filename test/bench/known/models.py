"""
Tiny models of random weights in the folders that hubs have: configuration, processor and tokenizer as transformers
writes them, and the network in ONNX with the names of inputs and outputs that @huggingface/transformers looks for.
"""

import json
import math
import string

import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import nn

WORDS = """the red bird sings anna lives in paris and works there for a company that makes bicycles which are not cheap
at all but good no where is old station of this small town food bad sport photo seven green apples garden house near
river example""".split()
PUNCTUATION = [".", ",", "?", "!"]
LETTERS = list(string.ascii_lowercase)
CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
COLOURS = {at: name for at, name in enumerate(["red", "green", "blue", "yellow"])}


def randomized(model, seed):
    """
    Gives weights a spread at which answers differ from input to input. The first weights of most models are so small
    that every answer is the same.
    """
    random = torch.Generator().manual_seed(seed)
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() >= 2 or "token" in name or "embed" in name:
                spread = 1.0 if id(weight) in embeddings else 1.4 / math.sqrt(max(1, weight[0].numel()))
                weight.copy_(torch.randn(weight.shape, generator=random) * spread)
            elif name.endswith("bias"):
                weight.copy_(torch.randn(weight.shape, generator=random) * 0.1)
    return model.eval()


class Named(nn.Module):
    """Calls a model with inputs by name, and returns its outputs by name in order."""

    def __init__(self, model, inputs, outputs):
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *given):
        answer = self.model(**dict(zip(self.inputs, given)), return_dict=True)
        return tuple(answer[name] for name in self.outputs)


class Spread(nn.Module):
    """Takes inputs as they come, so that all exports tell the axes of theirs alike."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *given):
        return self.model(*given)


def export(model, folder, inputs, outputs, name="model", axes=None):
    """@param axes names of the axes of each input whose size a request chooses; the library looks for some of them"""
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    axes = axes or {}
    shapes = [axes.get(name, {0: "batch_size"}) for name in inputs]
    torch.onnx.export(
        Named(model, list(inputs), outputs) if isinstance(model, hf.PreTrainedModel) else Spread(model),
        tuple(inputs.values()),
        str(folder / "onnx" / f"{name}.onnx"),
        input_names=list(inputs),
        output_names=outputs,
        dynamic_shapes={"given": tuple(shapes)},
        external_data=False,
        dynamo=True,
        verbose=False,
    )


def write(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(content))


def bert_tokenizer(folder, chat=None):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *PUNCTUATION, *dict.fromkeys([*WORDS, *LETTERS]), *(f"##{letter}" for letter in LETTERS)]
    ids = {word: at for at, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.add_special_tokens(special)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    more = {} if chat is None else {"chat_template": chat}
    kind = {"tokenizer_class": "BertTokenizer", "model_max_length": 128}
    write(folder, "tokenizer_config.json", {**kind, **names, **more})
    return len(words)


def bert(folder, kind, outputs, labels=None, seed=1):
    size = bert_tokenizer(folder)
    names = {} if labels is None else {"id2label": labels, "label2id": {name: at for at, name in labels.items()}}
    config = hf.BertConfig(vocab_size=size, max_position_embeddings=128, attn_implementation="eager", **TINY, **names)
    model = randomized(kind(config), seed)
    model.save_pretrained(folder)
    ids = torch.randint(5, size, (2, 9))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    inputs["attention_mask"][1, 6:] = 0
    export(model, folder, inputs, outputs, axes={name: {0: "batch_size", 1: "sequence_length"} for name in inputs})
    return model


class Further(nn.Module):
    """Says the next word; what it remembers of earlier words are plain inputs and outputs."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        remembered = hf.DynamicCache()
        for layer in range(len(past) // 2):
            remembered.update(past[2 * layer], past[2 * layer + 1], layer)
        seen = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=remembered,
            use_cache=True,
        )
        return (seen.logits, *(part for layer in remembered.layers for part in (layer.keys, layer.values)))


def llama(folder):
    size = bert_tokenizer(folder, CHAT)
    ends = {"eos_token_id": 3, "pad_token_id": 0, "bos_token_id": 2}
    config = hf.LlamaConfig(vocab_size=size, max_position_embeddings=128, attn_implementation="eager", **TINY, **ends)
    model = randomized(hf.LlamaForCausalLM(config), 5)
    model.generation_config = hf.GenerationConfig(**ends)
    model.save_pretrained(folder)
    layers, heads = TINY["num_hidden_layers"], TINY["num_attention_heads"]
    past = {
        f"past_key_values.{layer}.{part}": torch.randn(2, heads, 3, TINY["hidden_size"] // heads)
        for layer in range(layers)
        for part in ("key", "value")
    }
    inputs = {
        "input_ids": torch.tensor([[5, 6], [7, 8]]),
        "attention_mask": torch.ones(2, 5, dtype=torch.int64),
        "position_ids": torch.tensor([[3, 4], [3, 4]]),
        **past,
    }
    words = {0: "batch_size", 1: "sequence_length"}
    remembered = {0: "batch_size", 2: "past_sequence_length"}
    axes = {
        "input_ids": words,
        "attention_mask": {0: "batch_size", 1: "total_sequence_length"},
        "position_ids": words,
        **{name: remembered for name in past},
    }
    outputs = ["logits", *(name.replace("past_key_values", "present") for name in past)]
    export(Further(model), folder, inputs, outputs, axes=axes)


def picture_model(folder, model, processor, outputs, size, seed=2, free=False, tune=lambda model: model):
    """@param free whether the size of the pictures is that of a request"""
    tune(randomized(model, seed))
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    height, width = size
    inputs = {"pixel_values": torch.randn(2, 3, height, width)}
    axes = {"pixel_values": {0: "batch_size", **({2: "height", 3: "width"} if free else {})}}
    if "Detr" in type(model).__name__:
        inputs["pixel_mask"] = torch.ones(2, height, width, dtype=torch.int64)
        axes["pixel_mask"] = {0: "batch_size", 1: "mask_height", 2: "mask_width"}
    export(model, folder, inputs, outputs, axes=axes)
    return model


def labelled(names):
    return {"id2label": names, "label2id": {name: at for at, name in names.items()}}


def clip_tokenizer(folder):
    """Bytes with and without the end of a word, and a few words: CLIP's own rules for them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = [*alphabet, *(f"{sign}</w>" for sign in alphabet)]
    merges = []
    for word in ["red", "bird", "the", "old", "town", "good", "food", "photo", "of", "this", "is"]:
        parts = [*word[:-1], f"{word[-1]}</w>"]
        while len(parts) > 1:
            pair, merged = (parts[0], parts[1]), parts[0] + parts[1]
            if pair not in merges:
                merges.append(pair)
            if merged not in vocabulary:
                vocabulary.append(merged)
            parts = [merged, *parts[2:]]
    vocabulary += ["<|startoftext|>", "<|endoftext|>"]
    ids = {token: at for at, token in enumerate(vocabulary)}
    tokenizer = hf.CLIPTokenizer(vocab=ids, merges=merges, model_max_length=40)
    tokenizer.save_pretrained(folder)
    return ids


class Clip(nn.Module):
    """CLIP as hubs have it: texts and pictures of any number in one run."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, pixel_values, attention_mask):
        seen = self.model(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return seen.logits_per_image, seen.logits_per_text, seen.text_embeds, seen.image_embeds


class Half(nn.Module):
    def __init__(self, model, projection):
        super().__init__()
        self.model, self.projection = model, projection

    def forward(self, *given):
        return self.projection(self.model(*given).pooler_output)


def clip(folder):
    ids = clip_tokenizer(folder)
    text = hf.CLIPTextConfig(
        vocab_size=len(ids),
        max_position_embeddings=40,
        bos_token_id=ids["<|startoftext|>"],
        eos_token_id=ids["<|endoftext|>"],
        pad_token_id=ids["<|endoftext|>"],
        **TINY,
    )
    vision = hf.CLIPVisionConfig(image_size=32, patch_size=8, **TINY)
    config = hf.CLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=24, attn_implementation="eager"
    )
    model = randomized(hf.CLIPModel(config), 3)
    model.save_pretrained(folder)
    hf.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    tokens = torch.randint(0, len(ids) - 3, (2, 9))
    tokens[:, 7:] = ids["<|endoftext|>"]
    mask = torch.ones_like(tokens)
    pictures = torch.randn(3, 3, 32, 32)
    inputs = {"input_ids": tokens, "pixel_values": pictures, "attention_mask": mask}
    axes = {name: {0: "text_batch_size", 1: "sequence_length"} for name in ("input_ids", "attention_mask")}
    outputs = ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds"]
    export(Clip(model), folder, inputs, outputs, axes=axes)
    export(
        Half(model.vision_model, model.visual_projection),
        folder,
        {"pixel_values": pictures},
        ["image_embeds"],
        "vision_model",
    )
    return model
