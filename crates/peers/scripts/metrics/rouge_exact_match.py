"""Long contexts: ROUGE-L by rouge_score, identifiers and answers by hand."""

import json
import re
import uuid

import numpy
from rouge_score import rouge_scorer
from tokenizers import Tokenizer

from metrics import logs, texts

METHOD = "rouge-exact-match"
QUICK = 150
FULL = 3_000
UUID = re.compile(r"\w{8}-\w{4}-\w{4}-\w{4}-\w{12}")


def identifiers(rng):
    return [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(int(rng.integers(1, 5)))]


def make(folder, size, rng):
    records, said = [], []
    for at in range(size):
        metric = ["rouge", "niah_em", "qa_em"][at % 3]
        wanted, text = texts.paragraph(rng, 6), texts.paragraph(rng, 3)
        if metric == "rouge":
            text = texts.changed(wanted, rng)
        elif metric == "niah_em":
            right = identifiers(rng)
            kept = [one.upper() if rng.random() < 0.2 else one for one in right if rng.random() < 0.8]
            kept += identifiers(rng) if rng.random() < 0.4 else []
            kept = [one[:-1] if rng.random() < 0.1 else "x" + one if rng.random() < 0.1 else one for one in kept]
            wanted, text = ", ".join(right), text + " and ".join(kept)
        else:
            names = [str(name) for name in rng.choice(texts.NAMES + ["St. Louis", "J. B. Smith"], 3)]
            wanted = "|".join(names[: int(rng.integers(1, 4))])
            name = str(rng.choice(names))
            name = name.lower() if rng.random() < 0.3 else name
            text = str(rng.choice([text, "", "Answer: none. "])) + str(rng.choice(["Answer: ", "", "answer: "])) + name
            text += str(rng.choice(["", ".", "  or so", " Answer: "]))
            text = "" if rng.random() < 0.05 else text
        records.append({"gt_output": wanted, "metric": metric})
        said.append(text)
    tokenizer = texts.of_bytes(said)
    tokenizer.save(str(folder / "tokenizer.json"))
    texts.write_punkt(folder / "punkt")
    (folder / "references.json").write_text(json.dumps(records))
    answers = [(at, texts.ids(tokenizer, text, rng, "int64")) for at, text in enumerate(said)]
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order] + answers[:5])
    files = {"reference": "references.json", "tokenizer": "tokenizer.json", "punkt": "punkt"}
    return {"with": files, "element": "int64"}


def shared(wanted, found):
    """The script goes through the characters of each identifier that is wanted."""
    wanted, found = UUID.findall(wanted), UUID.findall(found)
    parts = [numpy.mean([letter.lower() in one.lower() for letter in right]) for one, right in zip(found, wanted)]
    return round(sum(parts) / len(found) * 100, 2) if found else 0.0


def answered(wanted, found):
    answer = found.split("Answer: ")[-1]
    bare = "".join(answer.split()).lower()
    options = ["".join(option.split()).lower() for option in wanted.split("|")]
    return 100.0 if answer in wanted or any(option in bare for option in options) else 0.0


def peer(folder):
    records = json.loads((folder / "references.json").read_text())
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    sentences = texts.punkt()
    scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
    found, length, tokens = {"rouge": [], "exact": []}, 0, 0
    answers = logs.first_of_each(logs.read(folder))
    for index, answer in answers.items():
        wanted = texts.lines(sentences, records[index]["gt_output"])
        text = texts.lines(sentences, texts.decoded(tokenizer, answer, "int64"))
        length, tokens = length + len(text), tokens + len(answer) // 8
        if records[index]["metric"] == "rouge":
            found["rouge"].append(100 * scorer.score(wanted, text)["rougeL"].fmeasure)
        else:
            of = shared if records[index]["metric"] == "niah_em" else answered
            found["exact"].append(of(wanted, text))
    return {"ROUGEL": f"{numpy.mean(found['rouge']):.8f}", "exact_match": f"{numpy.mean(found['exact']):.8f}",
            "GEN_LEN": str(length), "TOKENS_PER_SAMPLE": f"{tokens / len(answers):.8f}"}
