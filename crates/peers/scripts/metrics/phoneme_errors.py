"""Pronunciations with RapidFuzz's distances."""

import re

from rapidfuzz.distance import Levenshtein

from metrics import logs

METHOD = "phoneme-errors"
QUICK = 1_000
FULL = 100_000
PHONEMES = "AA0 AA1 AE1 AH0 AH1 B CH D EH1 ER0 F G HH IH0 IY1 K L M N OW1 P R S SH T UW1 V W Z".split()


def make(folder, size, rng):
    pick = lambda: PHONEMES[int(rng.integers(len(PHONEMES)))]
    lines, words, answers = [";;; made up"], [], []
    for at in range(size):
        word = f"w{at}'s" if rng.random() < 0.9 else f"(w{at}"
        said = [pick() for _ in range(int(rng.integers(1, 12)))]
        variants = [said] + [
            [pick() if rng.random() < 0.3 else one for one in said if rng.random() < 0.9] or said
            for _ in range(int(rng.integers(0, 4)))]
        for number, variant in enumerate(variants, 1):
            name = word if number == 1 else f"{word}({number})"
            remark = " # place, made up" if rng.random() < 0.1 else ""
            lines.append(f"{name} {' '.join(variant)}{remark}")
        words.append(word)
        heard = variants[int(rng.integers(len(variants)))]
        heard = [pick() if rng.random() < 0.1 else one for one in heard if rng.random() < 0.95]
        heard += [["XX"], [pick()]][int(rng.random() < 0.8)] * int(rng.random() < 0.2)
        answers.append((at, "  ".join(heard).encode()))
    (folder / "cmudict.dict").write_text("\n".join(lines) + "\n")
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    answers.append((0, b"Z Z Z"))
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"dictionary": "cmudict.dict", "words": "words.txt"}, "element": None}


def peer(folder):
    dictionary = {}
    for line in (folder / "cmudict.dict").read_text().splitlines():
        if not line.startswith(";;;"):
            word, *phonemes = line.split(" #")[0].split()
            dictionary.setdefault(re.sub(r"(.)\(\d+\)$", r"\1", word), []).append(phonemes)
    words = (folder / "words.txt").read_text().split()
    errors = phonemes = wrong = count = 0
    for index, answer in logs.first_of_each(logs.read(folder)).items():
        found = answer.decode().split()
        distances = [(Levenshtein.distance(found, said), len(said)) for said in dictionary[words[index]]]
        least, length = min(distances, key=lambda pair: pair[0])
        errors, phonemes = errors + least, phonemes + length
        wrong, count = wrong + (least > 0), count + 1
    return {"phoneme_error_rate": f"{100 * errors / phonemes:.10f}",
            "word_error_rate": f"{100 * wrong / count:.10f}"}
