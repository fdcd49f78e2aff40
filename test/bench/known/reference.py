"""
Makes the models and the inputs, lets transformers answer, and writes all that into a folder:

    python reference.py FOLDER [CASE ...]

`cases.json` there has for each case the task, the folder of its model, the options, the inputs and the answers.
"""

import json
import sys
import warnings
from pathlib import Path

import inputs
import sound_models
import text_cases
import torch
import transformers as hf
from answers import ALL, Reference, normal, opened, pipeline, scores_of
from models import COLOURS, TINY, clip, labelled, picture_model
from PIL import Image

warnings.filterwarnings("ignore")
hf.logging.set_verbosity_error()
hf.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
LEAST = {"threshold": 0.3, "leastVisible": 0.1}
VIT = {**TINY, "attn_implementation": "eager"}


def vit(kind, size=32, **more):
    return kind(hf.ViTConfig(image_size=size, patch_size=8, **VIT, **more))


def picture_classes(to, folder):
    processor = hf.ViTImageProcessor(size={"height": 32, "width": 32})
    model = vit(hf.ViTForImageClassification, **labelled(COLOURS))
    picture_model(folder, model, processor, ["logits"], (32, 32))
    answers = [scores_of(one) for one in pipeline("image-classification", folder)(to.opened(), top_k=ALL)]
    to.add("classes of pictures (ViT)", "image-classification", folder, to.pictures, answers, {"topK": ALL})


def picture_vectors(to, folder):
    processor = hf.ViTImageProcessor(size={"height": 32, "width": 32})
    model = picture_model(folder, vit(hf.ViTModel), processor, ["last_hidden_state"], (32, 32))
    reader = hf.AutoImageProcessor.from_pretrained(folder)
    answers = [normal(model(**reader(one, return_tensors="pt")).last_hidden_state[0, 0]) for one in to.opened()]
    to.add("vectors of pictures (ViT)", "image-feature-extraction", folder, to.pictures, answers)


def objects(to, name, folder):
    found = []
    for one in to.opened():
        found.append(pipeline("object-detection", folder)(one, threshold=0.3))
    to.add(name, "object-detection", folder, to.pictures, found, {"threshold": 0.3})


def never_background(model):
    """Python tells the best class of each box, the other library only boxes that are no background."""
    last = [module for module in model.modules() if isinstance(module, torch.nn.Linear) and module.out_features == 5][
        -1
    ]
    with torch.no_grad():
        last.bias[-1] = -30
    return model


def detector(to, task, folder, model, processor, sides):
    picture_model(folder, model, processor, ["logits", "pred_boxes"], sides, free=True, tune=never_background)
    objects(to, task, folder)


def yolos(to, folder):
    config = hf.YolosConfig(image_size=[64, 96], patch_size=16, num_detection_tokens=8, **VIT, **labelled(COLOURS))
    processor = hf.YolosImageProcessor(size={"shortest_edge": 64, "longest_edge": 96})
    detector(to, "objects (YOLOS)", folder, hf.YolosForObjectDetection(config), processor, (64, 80))


def detr_config(width, stages):
    backbone = hf.ResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 24, 32, 40],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=stages,
    )
    return hf.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=width,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=width // 8,
        decoder_attention_heads=width // 8,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=8,
        attn_implementation="eager",
        **labelled(COLOURS),
    )


def detr(to, folder):
    model = hf.DetrForObjectDetection(detr_config(32, ["stage4"]))
    processor = hf.DetrImageProcessor(size={"shortest_edge": 128, "longest_edge": 200})
    detector(to, "objects (DETR)", folder, model, processor, (128, 160))


def outlines(to, name, folder, pictures, **options):
    """Asks for masks, which it writes as files: several may have the same label."""
    answers = []
    for at, one in enumerate(opened(pictures)):
        found = []
        for number, segment in enumerate(pipeline("image-segmentation", folder)(one, **options)):
            path = to.folder / f"{folder.name}-{at}-{number}.png"
            segment["mask"].save(path)
            found.append({"label": segment["label"], "score": segment["score"], "file": str(path)})
        answers.append(found)
    to.add(name, "image-segmentation", folder, pictures, answers, LEAST if options else {})


def several_masks(model):
    """Lets the questions to a picture find different things, each in a part of it. At random, all find the same everywhere."""
    picture = torch.randn(1, 3, 128, 160, generator=torch.Generator().manual_seed(6))
    classes, output = model.detr.class_labels_classifier, model.mask_head.output_conv
    with torch.no_grad():
        model.detr.model.query_position_embeddings.weight *= 100
        for weight in model.bbox_attention.parameters():
            weight *= 3
        model.mask_head.conv1.conv.weight[:, model.config.d_model :] *= 5000
        for stage in model.mask_head.fpn_stages:
            stage.fpn_adapter.weight *= 0.01
        seen = model(pixel_values=picture)
        stretch(classes, 8, seen.logits[0].mean(0))
        stretch(output, 12 / seen.pred_masks.std(), seen.pred_masks.mean())
    return never_background(model)


def stretch(layer, by, middle):
    layer.weight *= by
    layer.bias.copy_((layer.bias - middle) * by)


def detr_masks(to, folder):
    model = hf.DetrForSegmentation(detr_config(64, ["stage1", "stage2", "stage3", "stage4"]))
    processor = hf.DetrImageProcessor(size={"shortest_edge": 128, "longest_edge": 200})
    outputs = ["logits", "pred_boxes", "pred_masks"]
    picture_model(folder, model, processor, outputs, (128, 160), free=True, tune=several_masks)
    named = {"threshold": LEAST["threshold"], "overlap_mask_area_threshold": LEAST["leastVisible"]}
    # Of the model's size: what is compared are the masks, and at random a step of one colour may move them.
    pictures = []
    for path, (width, height) in zip(to.pictures, [(160, 128), (128, 190), (200, 120), (128, 128), (170, 128), (98, 200)]):
        pictures.append(folder / path.name)
        Image.open(path).resize((width, height)).save(pictures[-1])
    outlines(to, "masks (DETR)", folder, pictures, **named)


def masks(to, folder):
    config = hf.SegformerConfig(
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 24, 32, 40],
        decoder_hidden_size=32,
        num_attention_heads=[1, 2, 4, 4],
        attn_implementation="eager",
        **labelled(COLOURS),
    )
    processor = hf.SegformerImageProcessor(size={"height": 128, "width": 128})
    picture_model(folder, hf.SegformerForSemanticSegmentation(config), processor, ["logits"], (128, 128))
    outlines(to, "masks (SegFormer)", folder, to.pictures)


def depth(to, folder):
    backbone = hf.Dinov2Config(
        image_size=112,
        patch_size=14,
        out_features=["stage1", "stage2"],
        apply_layernorm=True,
        reshape_hidden_states=False,
        mlp_ratio=2,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        attn_implementation="eager",
    )
    config = hf.DepthAnythingConfig(
        backbone_config=backbone,
        patch_size=14,
        reassemble_hidden_size=32,
        reassemble_factors=[2, 1],
        neck_hidden_sizes=[16, 24],
        fusion_hidden_size=16,
        head_hidden_size=8,
        attn_implementation="eager",
    )
    processor = hf.DPTImageProcessor(
        size={"height": 112, "width": 112},
        do_normalize=True,
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
        resample=3,
    )
    picture_model(folder, hf.DepthAnythingForDepthEstimation(config), processor, ["predicted_depth"], (112, 112))
    ask = pipeline("depth-estimation", folder)
    answers = []
    for at, one in enumerate(to.opened()):
        found = ask(one)["predicted_depth"]
        answers.append(
            {"file": to.array(f"depth-{at}", found.squeeze().numpy()), "width": one.width, "height": one.height}
        )
    to.add("depth (Depth Anything)", "depth-estimation", folder, to.pictures, answers)


def clip_pictures(to, folder):
    model = clip(folder)
    options = {"labels": inputs.LABELS, "template": "This is a photo of {}."}
    ask = pipeline("zero-shot-image-classification", folder)
    found = ask(to.opened(), candidate_labels=inputs.LABELS, hypothesis_template=options["template"])
    to.add(
        "zero-shot classes of pictures (CLIP)",
        "zero-shot-image-classification",
        folder,
        to.pictures,
        [scores_of(one) for one in found],
        options,
    )
    reader = hf.AutoImageProcessor.from_pretrained(folder)
    vectors = []
    for one in to.opened():
        seen = model.visual_projection(model.vision_model(**reader(one, return_tensors="pt")).pooler_output)
        vectors.append(normal(seen[0]))
    to.add("vectors of pictures (CLIP)", "image-feature-extraction", folder, to.pictures, vectors)


def speech(to, folder):
    sound_models.whisper(folder)
    ask = pipeline("automatic-speech-recognition", folder)
    # Python's pipeline would follow five wordings at a time; the other library takes the likeliest word.
    greedy = {"num_beams": 1, "max_new_tokens": sound_models.MOST_WORDS}
    for language in ("", "de"):
        options = {"language": language} if language else {}
        found = [ask(one, generate_kwargs={"task": "transcribe", **greedy, **options}) for one in to.heard()]
        name = f"speech (Whisper), {'in German' if language else 'language to be found'}"
        to.add(
            name, "automatic-speech-recognition", folder, to.sounds, [{"text": one["text"]} for one in found], options
        )


def letters(to, folder):
    folder.mkdir(parents=True, exist_ok=True)
    known = sound_models.letters_tokenizer(folder)
    sound_models.wav2vec2(folder, hf.Wav2Vec2ForCTC, letters=known)
    found = [pipeline("automatic-speech-recognition", folder)(one)["text"] for one in to.heard()]
    to.add("speech (Wav2Vec2)", "automatic-speech-recognition", folder, to.sounds, [{"text": text} for text in found])


def sound_classes(to, folder, make, name):
    make(folder)
    ask = pipeline("audio-classification", folder)
    answers = [scores_of(ask(one, top_k=len(COLOURS))) for one in to.heard()]
    to.add(f"classes of sounds ({name})", "audio-classification", folder, to.sounds, answers, {"topK": ALL})


def sound_classes_wav2vec2(to, folder):
    sound_classes(
        to, folder, lambda at: sound_models.wav2vec2(at, hf.Wav2Vec2ForSequenceClassification, COLOURS), "Wav2Vec2"
    )


def sound_classes_ast(to, folder):
    sound_classes(to, folder, lambda at: sound_models.ast(at, COLOURS), "AST")


CASES = [
    text_cases.text_vectors,
    text_cases.text_classes,
    text_cases.zero_shot_texts,
    text_cases.names_in_texts,
    text_cases.questions,
    text_cases.generation,
    picture_classes,
    picture_vectors,
    yolos,
    detr,
    detr_masks,
    masks,
    depth,
    clip_pictures,
    speech,
    letters,
    sound_classes_wav2vec2,
    sound_classes_ast,
]


def main(folder, wanted):
    to = Reference(folder)
    for make in CASES:
        if wanted and make.__name__ not in wanted:
            continue
        print(f"Python: {make.__name__} ...", file=sys.stderr, flush=True)
        with torch.no_grad():
            make(to, folder / make.__name__)
    versions = {"transformers": hf.__version__, "torch": torch.__version__}
    (folder / "cases.json").write_text(json.dumps({"versions": versions, "cases": to.cases}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
