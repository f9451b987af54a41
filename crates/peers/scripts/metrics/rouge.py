"""Summaries by rouge_score, with stems; sentences are lines."""

import json

import numpy
from rouge_score import rouge_scorer

from metrics import logs

METHOD = "rouge"
QUICK = 150
FULL = 3_000

# Stems, with endings for every rule of the stemmer.
STEMS = """relat condit ration valenc hesit digit conform radic differ vile analog vietnam predic
oper feudal decis hope callous formal sensit sensib triplic form electric goodn reviv allow infer
airlin gyroscop adjust defens irrit replac depend adopt homolog commun activ angular effect
bowdler probat rat ceas control roll agre plaster motor hopp tann fall hiss fizz fail fil happ sk
enjo cr fl geo theo ph 3rd 2024 yy""".split()
ENDINGS = """ational tional enci ency anci ance izer ize abli ably alli ally entli ently eli ely ousli
ously ization ation ator alism iveness fulness ousness aliti ality iviti ivity biliti bility icate
ative alize iciti icity ical ful ness al ence er ic able ible ant ement ment ent sion tion ou ism ate
iti ous ive s es ies ss sses ed eed ing ied y ll fulli logi logy""".split()
SHORT = "the a of in and to it is was for on with as at by he she who new man".split()


def make(folder, size, rng):
    words = [stem + ending for stem in STEMS for ending in ENDINGS + [""]]

    def sentence():
        chosen = rng.choice(words if rng.random() < 0.5 else words[:400], rng.integers(3, 15))
        parts = [str(word) for word in chosen] + [str(word) for word in rng.choice(SHORT, 5)]
        rng.shuffle(parts)
        return (" ".join(parts) + ("." if rng.random() < 0.9 else "\u2014caf\u00e9's \u0130!")).capitalize()

    references, answers = [], []
    for at in range(size):
        lines = [sentence() for _ in range(int(rng.integers(1, 5)))]
        references.append({"output": "\n".join(lines)})
        kept = []
        for line in lines + [sentence()]:
            parts = [part for part in line.split() if rng.random() < 0.8]
            if rng.random() < 0.3:
                rng.shuffle(parts)
            kept.append(" ".join(parts))
        rng.shuffle(kept)
        text = "  \n".join(kept) if rng.random() < 0.98 else ""
        answers.append((at, text.encode()))
    (folder / "references.json").write_text(json.dumps(references))
    order = rng.permutation(size)
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"reference": "references.json"}, "element": None}


def peer(folder):
    references = json.loads((folder / "references.json").read_text())
    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = rouge_scorer.RougeScorer(names, use_stemmer=True)
    found, length = {name: [] for name in names}, 0
    for index, answer in logs.first_of_each(logs.read(folder)).items():
        text = answer.decode().strip()
        length += len(text)
        scores = scorer.score(references[index]["output"].strip(), text)
        for name in names:
            found[name].append(scores[name].fmeasure)
    figures = {name.upper(): f"{100 * numpy.mean(values):.8f}" for name, values in found.items()}
    return {**figures, "GEN_LEN": str(length)}
