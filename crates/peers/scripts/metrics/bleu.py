"""Translations by sacreBLEU, of tokenised sentences, references in parts of words."""

import sacrebleu

from metrics import logs

METHOD = "bleu"
QUICK = 200
FULL = 100_000


def make(folder, size, rng):
    # Frequencies as in a language: the n-th word as often as 1/n.
    words = [f"w{at}" for at in range(20_000)]
    weights = 1 / (1 + rng.permutation(len(words)))
    weights /= weights.sum()
    answers = []
    with open(folder / "reference.de", "w") as out:
        for at in range(size):
            sentence = list(rng.choice(words, rng.integers(3, 40), p=weights))
            parts = [word[:2] + "@@ " + word[2:] if len(word) > 3 else word for word in sentence]
            out.write(" ".join(parts) + "\n")
            # Some words are others, some are missing; few sentences are whole.
            kept = [word if rng.random() < 0.85 else rng.choice(words[:50]) for word in sentence
                    if rng.random() < 0.95]
            answers.append((at, " ".join(kept).encode()))
    answers[1] = (1, b"")
    # The first entry of a sentence counts alone.
    answers += [(0, b"w1 w2 w3"), (1, b"w1")]
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"reference": "reference.de"}, "element": None}


def peer(folder):
    references = [line.strip().replace("@@ ", "") for line in open(folder / "reference.de")]
    first = {}
    for index, answer in logs.read(folder):
        # The script of the reference splits an empty translation into one word that is none.
        first.setdefault(index, answer.decode() or "\N{EMPTY SET}")
    found = list(first.values())
    wanted = [references[index] for index in first]
    bleu = sacrebleu.corpus_bleu(found, [wanted], smooth_method="none", force=True, tokenize="none")
    return {"bleu": f"{bleu.score:.8f}"}
