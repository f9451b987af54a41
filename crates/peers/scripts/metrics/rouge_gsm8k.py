"""Answers of OpenOrca by rouge_score, and numbers of GSM8K by regular expressions."""

import json
import re

import numpy
from rouge_score import rouge_scorer
from tokenizers import Tokenizer

from metrics import logs, texts

METHOD = "rouge-gsm8k"
QUICK = 150
FULL = 3_000
NUMBER = re.compile(r"-?[\d,]*\.?\d+")


def make(folder, size, rng):
    records, said = [], []
    for at in range(size):
        dataset = ["OpenOrca", "GSM8K", "MBXP"][at % 3]
        wanted, text = texts.paragraph(rng, 6), texts.paragraph(rng, 3)
        if dataset == "OpenOrca":
            text = texts.changed(wanted, rng)
        elif dataset == "GSM8K":
            number = int(rng.integers(-2_000, 90_000))
            wanted = str(number) if rng.random() < 0.7 else number if rng.random() < 0.8 else "none"
            shown = str(rng.choice([f"{number:,}", f"{number}.0", f"{number}.5", f"${number}", "none"]))
            text += str(rng.choice(["The answer is ", "It is ", "The answer is 3. The answer is ", ""])) + shown
            text += str(rng.choice(["", ".", " of 7", "\nQ: What of 8?", ", 9", ",x -"]))
        records.append({"dataset": dataset, "gt_output": wanted})
        said.append(text)
    tokenizer = texts.of_pieces(said)
    tokenizer.save(str(folder / "tokenizer.json"))
    texts.write_punkt(folder / "punkt")
    (folder / "references.json").write_text(json.dumps(records))
    answers = [(at, texts.ids(tokenizer, text, rng, "int64")) for at, text in enumerate(said)]
    answers += answers[:5]
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    files = {"reference": "references.json", "tokenizer": "tokenizer.json", "punkt": "punkt"}
    return {"with": files, "element": None}


def number(text):
    text = text.split("\nQ:")[0]
    told = NUMBER.findall(text.split("The answer is")[-1]) if "The answer is" in text else []
    everywhere = NUMBER.findall(text)
    found = told[0] if told else everywhere[-1] if everywhere else ""
    return float(found.replace(",", "")) if found else None


def wanted_number(value):
    try:
        return float(value)
    except ValueError:
        return None


def peer(folder):
    records = json.loads((folder / "references.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    sentences = texts.punkt()
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = rouge_scorer.RougeScorer(names, use_stemmer=True)
    found, length, tokens, right = {name: [] for name in names}, 0, 0, []
    entries = logs.read(folder)
    for index, answer in logs.first_of_each(entries).items():
        record, text = records[index], texts.decoded(tokenizer, answer, "int64")
        tokens += len(answer) // 8
        if record["dataset"] == "OpenOrca":
            text = texts.lines(sentences, text)
            length += len(text)
            scores = scorer.score(texts.lines(sentences, record["gt_output"]), text)
            for name in names:
                found[name].append(scores[name].fmeasure)
        elif record["dataset"] == "GSM8K":
            said = number(text)
            right.append(said is not None and said == wanted_number(record["gt_output"]))
    figures = {name.upper(): f"{100 * numpy.mean(values):.8f}" for name, values in found.items()}
    return {**figures, "GEN_LEN": str(length), "gsm8k_accuracy": f"{100 * numpy.mean(right):.8f}",
            "TOKENS_PER_SAMPLE": f"{tokens / len(entries):.8f}"}
