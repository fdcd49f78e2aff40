"""Texts that go through Python's library: vectors, classes, names, answers to questions, and what comes next."""

import inputs
import torch
import transformers as hf
from answers import ALL, normal, pipeline, scores_of
from models import COLOURS, bert, llama


def text_vectors(to, folder):
    model = bert(folder, hf.BertModel, ["last_hidden_state"])
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    vectors = []
    for text in inputs.TEXTS:
        given = tokenizer(text, return_tensors="pt")
        vectors.append(normal(model(**given).last_hidden_state[0].mean(0)))
    to.add("vectors of texts", "feature-extraction", folder, inputs.TEXTS, vectors)


def text_classes(to, folder):
    bert(folder, hf.BertForSequenceClassification, ["logits"], COLOURS)
    answers = [scores_of(one) for one in pipeline("text-classification", folder)(inputs.TEXTS, top_k=ALL)]
    to.add("classes of texts", "text-classification", folder, inputs.TEXTS, answers, {"topK": ALL})


def zero_shot_texts(to, folder):
    bert(folder, hf.BertForSequenceClassification, ["logits"], {0: "contradiction", 1: "neutral", 2: "entailment"})
    ask = pipeline("zero-shot-classification", folder)
    for several in (False, True):
        answers = [
            [{"label": label, "score": score} for label, score in zip(one["labels"], one["scores"])]
            for one in ask(inputs.TEXTS, candidate_labels=inputs.LABELS, multi_label=several)
        ]
        name = f"zero-shot classes of texts{', each by itself' if several else ''}"
        options = {"labels": inputs.LABELS, "multiLabel": several}
        to.add(name, "zero-shot-classification", folder, inputs.TEXTS, answers, options)


def names_in_texts(to, folder):
    bert(folder, hf.BertForTokenClassification, ["logits"], {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"})
    ask = pipeline("token-classification", folder)
    for group in (True, False):
        answers = []
        for found in ask(inputs.TEXTS, aggregation_strategy="simple" if group else "none"):
            answers.append(
                [
                    {
                        "label": one["entity_group" if group else "entity"],
                        "score": float(one["score"]),
                        "word": one["word"],
                        "start": one["start"],
                        "end": one["end"],
                    }
                    for one in found
                ]
            )
        name = f"names in texts, {'grouped' if group else 'each part'}"
        to.add(name, "token-classification", folder, inputs.TEXTS, answers, {"group": group})


# What Python's pipeline of questions allowed, which transformers no longer has since its version 5.
MOST_TOKENS = 15
MOST_WORDS = 24
QUESTIONS = [
    ("where is the house ?", "The red bird sings near the old house of this town , and the good garden is near ."),
    ("who lives in paris ?", "Anna lives in Paris and works there for a company , which is small but good ."),
    ("which sport ?", "No sport at all ."),
    ("what is a photo ?", "A photo of seven green apples , a photo of the river , and a photo of the station"),
]


def best_spans(start, end, of_context, most):
    """The most likely spans of the context. The first token takes part of the probability: it says that there is no answer."""
    allowed = torch.tensor([one or at == 0 for at, one in enumerate(of_context)])
    start, end = (one.masked_fill(~allowed, -torch.inf).softmax(-1) for one in (start, end))
    spans = [
        ((start[first] * end[last]).item(), first, last)
        for first in range(1, len(start))
        for last in range(first, min(first + MOST_TOKENS, len(start)))
        if of_context[first] and of_context[last]
    ]
    return sorted(spans, key=lambda one: -one[0])[:most]


def questions(to, folder):
    model = bert(folder, hf.BertForQuestionAnswering, ["start_logits", "end_logits"])
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    answers = []
    for question, context in QUESTIONS:
        given = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
        places = given.pop("offset_mapping")[0].tolist()
        words, of_context = given.word_ids(0), [part == 1 for part in given.sequence_ids(0)]
        seen = model(**given)
        found = []
        for score, first, last in best_spans(seen.start_logits[0], seen.end_logits[0], of_context, 3):
            # Whole words: an answer may begin or end at a part of one.
            of_word = [at for at, word in enumerate(words) if of_context[at] and words[first] <= word <= words[last]]
            start, end = places[of_word[0]][0], places[of_word[-1]][1]
            found.append({"answer": context[start:end], "score": score, "start": start, "end": end})
        answers.append(found)
    given = [{"question": question, "context": context} for question, context in QUESTIONS]
    to.add("answers to questions", "question-answering", folder, given, answers, {"topK": 3})


def generation(to, folder):
    llama(folder)
    given = [
        *inputs.TEXTS[:3],
        [{"role": "system", "content": "good food"}, {"role": "user", "content": "where is the red bird ?"}],
    ]
    ask = pipeline("text-generation", folder)
    answers = []
    for one in given:
        found = ask(one, max_new_tokens=MOST_WORDS, do_sample=False, return_full_text=False)[0]["generated_text"]
        answers.append({"text": found})
    options = {"maxTokens": MOST_WORDS}
    to.add("further words (Llama)", "text-generation", folder, given, answers, options)
