"""Tokens by tokenizers, sentences by nltk, and ROUGE by rouge_score."""

import json

import numpy
from rouge_score import rouge_scorer
from tokenizers import Tokenizer

from metrics import logs, texts

METHOD = "rouge"
QUICK = 150
FULL = 3_000


def make(folder, size, rng):
    wanted = [texts.paragraph(rng, 6) for _ in range(size)]
    tokenizer = texts.of_bytes(wanted)
    tokenizer.save(str(folder / "tokenizer.json"))
    texts.write_punkt(folder / "punkt")
    (folder / "references.json").write_text(json.dumps([{"output": text} for text in wanted]))
    said = [texts.changed(text, rng) + texts.sentence(rng) if rng.random() < 0.98 else "" for text in wanted]
    answers = [(at, texts.ids(tokenizer, text, rng, "int32")) for at, text in enumerate(said)]
    answers += answers[:3]
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    files = {"reference": "references.json", "tokenizer": "tokenizer.json", "punkt": "punkt"}
    return {"with": files, "element": "int32"}


def peer(folder):
    references = json.loads((folder / "references.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    sentences = texts.punkt()
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = rouge_scorer.RougeScorer(names, use_stemmer=True)
    found, length, tokens = {name: [] for name in names}, 0, 0
    answers = logs.first_of_each(logs.read(folder))
    for index, answer in answers.items():
        text = texts.lines(sentences, texts.decoded(tokenizer, answer, "int32"))
        length, tokens = length + len(text), tokens + len(answer) // 4
        scores = scorer.score(texts.lines(sentences, references[index]["output"]), text)
        for name in names:
            found[name].append(scores[name].fmeasure)
    figures = {name.upper(): f"{100 * numpy.mean(values):.8f}" for name, values in found.items()}
    return {**figures, "GEN_LEN": str(length), "TOKENS_PER_SAMPLE": f"{tokens / len(answers):.8f}"}
