"""Tiny models that hear: Whisper with its networks for the first and the further words, Wav2Vec2 and AST."""

import torch
import transformers as hf
from models import WORDS, export, labelled, randomized, write
from tokenizers import AddedToken, pre_tokenizers
from torch import nn

LANGUAGES = ["en", "de", "fr"]
TASKS = ["translate", "transcribe"]
LAYERS, HEADS, WIDTH = 2, 4, 32
BYTES = 256
# What a text begins with: its start, the language, the task, and that it has no times.
PROMPT = 4
MOST_WORDS = 36


def whisper_tokenizer(folder):
    """The bytes, words that begin with a space, the special tokens in Whisper's order, and a time for each 20 ms."""
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *dict.fromkeys(f"\u0120{word}" for word in WORDS)]
    ids = {token: at for at, token in enumerate([*words, "<|endoftext|>"])}
    tokenizer = hf.WhisperTokenizer(vocab=ids, merges=[])
    special = ["<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES), *(f"<|{task}|>" for task in TASKS)]
    special += ["<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    tokenizer.add_tokens([AddedToken(f"<|{at / 50:.2f}|>", normalized=False) for at in range(1501)])
    tokenizer.save_pretrained(folder)
    return tokenizer


class Decoder(nn.Module):
    """Whisper's decoder with what it remembers of earlier words as plain inputs and outputs."""

    def __init__(self, model):
        super().__init__()
        self.decoder, self.to_words = model.model.decoder, model.proj_out

    def forward(self, input_ids, encoder_hidden_states, *past):
        remembered = hf.EncoderDecoderCache(hf.DynamicCache(), hf.DynamicCache())
        for layer in range(LAYERS):
            remembered.self_attention_cache.update(past[2 * layer], past[2 * layer + 1], layer)
        seen = self.decoder(
            input_ids=input_ids,
            encoder_hidden_states=encoder_hidden_states,
            past_key_values=remembered,
            use_cache=True,
        )
        own = seen.past_key_values.self_attention_cache
        present = [part for layer in own.layers for part in (layer.keys, layer.values)]
        return (self.to_words(seen.last_hidden_state), *present)


def whisper(folder):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = whisper_tokenizer(folder)
    hf.WhisperFeatureExtractor().save_pretrained(folder)
    id_of = tokenizer.convert_tokens_to_ids
    end = id_of("<|endoftext|>")
    ends = {"eos_token_id": end, "pad_token_id": end, "bos_token_id": end}
    config = hf.WhisperConfig(
        vocab_size=len(tokenizer),
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        decoder_start_token_id=id_of("<|startoftranscript|>"),
        attn_implementation="eager",
        tie_word_embeddings=False,
        suppress_tokens=[],
        begin_suppress_tokens=[],
        **ends,
    )
    model = randomized(hf.WhisperForConditionalGeneration(config), 21)
    # So that it says words, no parts of characters; among languages, one is still likelier than the others.
    with torch.no_grad():
        model.proj_out.weight[:BYTES] *= 0.05
        model.proj_out.weight[end + 1 :] *= 0.05
    model.generation_config = hf.GenerationConfig(
        decoder_start_token_id=id_of("<|startoftranscript|>"),
        is_multilingual=True,
        lang_to_id={f"<|{code}|>": id_of(f"<|{code}|>") for code in LANGUAGES},
        task_to_id={task: id_of(f"<|{task}|>") for task in TASKS},
        no_timestamps_token_id=id_of("<|notimestamps|>"),
        prev_sot_token_id=id_of("<|startofprev|>"),
        max_initial_timestamp_index=50,
        max_length=PROMPT + MOST_WORDS,
        suppress_tokens=[],
        begin_suppress_tokens=[end],
        **ends,
    )
    model.save_pretrained(folder)
    sound = torch.randn(1, 80, 3000)
    export(model.model.encoder, folder, {"input_features": sound}, ["last_hidden_state"], "encoder_model")
    past = {
        f"past_key_values.{layer}.decoder.{part}": torch.randn(2, HEADS, 3, WIDTH // HEADS)
        for layer in range(LAYERS)
        for part in ("key", "value")
    }
    inputs = {
        "input_ids": torch.tensor([[1, 2], [3, 4]]),
        "encoder_hidden_states": torch.randn(2, 1500, WIDTH),
        **past,
    }
    remembered = {0: "batch_size", 2: "past_decoder_sequence_length"}
    axes = {"input_ids": {0: "batch_size", 1: "decoder_sequence_length"}, **{name: remembered for name in past}}
    outputs = ["logits", *(name.replace("past_key_values", "present") for name in past)]
    export(Decoder(model), folder, inputs, outputs, "decoder_model_merged", axes)
    return model


def wav2vec2(folder, kind, labels=None, letters=None):
    config = hf.Wav2Vec2Config(
        vocab_size=len(letters or "unused"),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=64,
        conv_dim=(32,) * 7,
        classifier_proj_size=16,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        pad_token_id=0,
        attn_implementation="eager",
        **(labelled(labels) if labels else {}),
    )
    model = kind(config)
    randomized(model, 22)
    if letters:
        with torch.no_grad():
            # It says none of the special tokens, which only Python would write down.
            model.lm_head.bias[1:4] = -30
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    hf.Wav2Vec2FeatureExtractor(do_normalize=True).save_pretrained(folder)
    # Its weight is the product of two parameters, which the export need not compute.
    torch.nn.utils.parametrize.remove_parametrizations(model.wav2vec2.encoder.pos_conv_embed.conv, "weight")
    export(
        model,
        folder,
        {"input_values": torch.randn(1, 16_000)},
        ["logits"],
        axes={"input_values": {0: "batch_size", 1: "samples"}},
    )
    return model


def letters_tokenizer(folder):
    """In the form that conversions for the library have: Python's tokenizer of Wav2Vec2 writes none."""
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"etaonihsrdlu'"]
    ids = {letter: at for at, letter in enumerate(letters)}
    write(folder, "vocab.json", ids)
    special = [
        {
            "id": at,
            "content": letters[at],
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for at in range(4)
    ]
    ctc = {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}
    words = {"type": "WordLevel", "vocab": ids, "unk_token": "<unk>"}
    write(
        folder,
        "tokenizer.json",
        {
            "version": "1.0",
            "added_tokens": special,
            "normalizer": None,
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": ctc,
            "model": words,
        },
    )
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    write(
        folder,
        "tokenizer_config.json",
        {"tokenizer_class": "Wav2Vec2CTCTokenizer", "word_delimiter_token": "|", "do_lower_case": False, **names},
    )
    return letters


def ast(folder, labels):
    config = hf.ASTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=64,
        max_length=256,
        attn_implementation="eager",
        **labelled(labels),
    )
    model = randomized(hf.ASTForAudioClassification(config), 23)
    model.save_pretrained(folder)
    hf.ASTFeatureExtractor(max_length=256).save_pretrained(folder)
    export(model, folder, {"input_values": torch.randn(1, 256, 128)}, ["logits"])
    return model
