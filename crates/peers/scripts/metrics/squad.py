"""Questions with logits: pieces by Hugging Face's tokenizers, the rest by hand."""

import collections
import json
import re
import string

import numpy
from tokenizers import BertWordPieceTokenizer

from metrics import logs

METHOD = "squad"
QUICK = 150
FULL = 1_500
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
STEMS = "the a an in of denver bronco champion par jour smith year 19 20 cafe zur new york u s ß σ i о".split()
ENDS = "s ed ing ich is ney naire ly 67 5 e x ς".split()
NASTY = """Denver Broncos' (Paris) U.S.A. $1967.50 café CAFÉ Zürich İx ΣΑΣ Σς a\u0301n naïve\u00a0new 中文x 東京
[MASK] [UNK]in [cls] co\u00adop A\u200bn — “the” an-a the. `` ^ ~x~ \ufffd\ufffd a\u202fthe \u2028in ½ ٣ ﬁx e\u0301 ॐ कि \u1fefd
Ω＇s '' ##s s##s new—york Smith's STRASSE straße\ufeff \u0130 новости""".split(" ")


def make(folder, size, rng):
    pick = lambda words: words[int(rng.integers(len(words)))]
    pieces = SPECIAL + STEMS + list("bcdfghjklmnopqrtuvwyz中文東京'$.,()-—“”`^~½٣ॐक=?") + ["##" + end for end in ENDS]
    pieces += ["##" + letter for letter in "abcdefghijklmnopqrstuvwyz0123456789"]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(pieces)) + "\n")

    def word():
        chance = rng.random()
        if chance < 0.55:
            found = pick(STEMS)
        elif chance < 0.75:
            found = pick(STEMS) + pick(ENDS)
        else:
            found = pick(NASTY)
        return found.title() if rng.random() < 0.2 else found + "," if rng.random() < 0.1 else found

    def text(least, most):
        words = [word() for _ in range(int(rng.integers(least, most)))]
        return "".join(one + pick([" "] * 9 + ["  ", "\n", "\t"]) for one in words).strip()

    paragraphs, asked = [], 0
    while asked < size:
        context = text(0, 500) if rng.random() < 0.9 else text(0, 3)
        words, questions = context.split() or ["x"], []
        for _ in range(int(rng.integers(1, 5))):
            at = int(rng.integers(len(words)))
            answers = [" ".join(words[at:at + int(rng.integers(1, 5))]) for _ in range(3)]
            answers = [{"text": answer, "answer_start": 0} for answer in answers]
            questions.append({"id": str(asked), "question": text(0, 90), "answers": answers})
            asked += 1
        paragraphs.append({"context": context, "qas": questions})
    dataset = {"version": "1.1", "data": [{"title": "", "paragraphs": [one]} for one in paragraphs]}
    (folder / "dev.json").write_text(json.dumps(dataset))

    answers = []
    for at, feature in enumerate(features(folder)):
        logits = numpy.round(rng.normal(0, 2, (384, 2)), int(rng.integers(0, 3)))
        right = [at for at, one in enumerate(feature["words"]) if one is not None and any(
            feature["context"][one] in answer for answer in feature["right"])]
        for token in right[:int(rng.integers(0, 5))]:
            logits[token] += rng.integers(0, 9, 2)
        if rng.random() < 0.05:
            logits[:] = 0
        logits = logits.astype(numpy.float16)
        length = len(feature["tokens"]) if rng.random() < 0.5 else 384
        if rng.random() < 0.03:
            length = int(rng.integers(1, 384))
        if rng.random() > 0.02:
            answers.append((at, logits[:length].tobytes()))
        if rng.random() < 0.03:
            answers.append((at, rng.permutation(logits).tobytes()))
    logs.write(folder, [answers[at] for at in rng.permutation(len(answers))])
    return {"with": {"dataset": "dev.json", "vocabulary": "vocab.txt"}, "element": "float16"}


def pieces_of(folder):
    tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).tokens


def features(folder):
    pieces = pieces_of(folder)
    dataset = json.loads((folder / "dev.json").read_text())["data"]
    for paragraph in (paragraph for article in dataset for paragraph in article["paragraphs"]):
        words = [word for word in re.split("[ \t\r\n\u202f]", paragraph["context"]) if word]
        tokens, origins = [], []
        for at, word in enumerate(words):
            found = pieces(word)
            tokens += found
            origins += [at] * len(found)
        for question in paragraph["qas"]:
            query = pieces(question["question"])[:64]
            room, starts = 384 - len(query) - 3, [0] if tokens else []
            while starts and starts[-1] + room < len(tokens):
                starts.append(starts[-1] + 128)
            ends = [min(start + room, len(tokens)) for start in starts]

            def around(at, part):
                start, end = starts[part], ends[part]
                inside = start <= at < end
                return min(at - start, end - 1 - at) + 0.01 * (end - start) if inside else -1

            home = [max(range(len(starts)), key=lambda part: around(at, part))
                    for at in range(len(tokens))]
            before = ["[CLS]", *query, "[SEP]"]
            for part, (start, end) in enumerate(zip(starts, ends)):
                yield {"id": question["id"], "tokens": [*before, *tokens[start:end], "[SEP]"],
                       "words": [None] * len(before) + origins[start:end] + [None],
                       "home": [False] * len(before) + [one == part for one in home[start:end]] + [False],
                       "context": words, "right": [one["text"] for one in question["answers"]]}


def project(pieces, original, found):
    tokens = " ".join(pieces(original))
    start = tokens.find(found)
    ours = [at for at, letter in enumerate(tokens) if letter != " "]
    places = [at for at, letter in enumerate(original) if letter != " "]
    if start < 0 or not found or len(ours) != len(places):
        return original
    first, last = ours.index(start), ours.index(start + len(found) - 1)
    return original[places[first]:places[last] + 1]


def words_of(text):
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(the|an?)\b", " ", text).split()


def f1(found, right):
    shared = sum((collections.Counter(found) & collections.Counter(right)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(found), shared / len(right)
    return 2 * precision * recall / (precision + recall)


def predictions(folder):
    pieces, logits = pieces_of(folder), {}
    for index, answer in logs.read(folder):
        given = numpy.frombuffer(answer, numpy.float16).reshape(-1, 2).astype(float)
        logits[index] = numpy.pad(given, ((0, 384 - len(given)), (0, 0)), constant_values=-10000.0)
    best, texts = {}, {}
    for at, feature in enumerate(features(folder)):
        if at not in logits:
            continue
        starts, ends = logits[at].T.tolist()
        firsts, lasts = (sorted(range(384), key=lambda one: -numbers[one])[:20]
                         for numbers in (starts, ends))
        words, home = feature["words"], feature["home"]
        for first in firsts:
            if first >= len(words) or not home[first]:
                continue
            for last in lasts:
                fits = first <= last < first + 30 and last < len(words) and words[last] is not None
                score = starts[first] + ends[last]
                if fits and (feature["id"] not in best or score > best[feature["id"]]):
                    best[feature["id"]] = score
                    found = " ".join(feature["tokens"][first:last + 1])
                    original = " ".join(feature["context"][words[first]:words[last] + 1])
                    texts[feature["id"]] = original, found.replace(" ##", "").replace("##", "")
    return {one: project(pieces, original, found) for one, (original, found) in texts.items()}


def peer(folder):
    texts, exact, mean, total = predictions(folder), 0, 0, 0
    for article in json.loads((folder / "dev.json").read_text())["data"]:
        for question in (one for part in article["paragraphs"] for one in part["qas"]):
            found = words_of(texts.get(question["id"], "empty"))
            rights = [words_of(answer["text"]) for answer in question["answers"]]
            exact += any(found == right for right in rights)
            mean += max(f1(found, right) for right in rights)
            total += 1
    return {"F1": f"{100 * mean / total:.10f}", "exact_match": f"{100 * exact / total:.10f}"}
