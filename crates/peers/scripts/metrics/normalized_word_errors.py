"""Transcripts after Whisper's normaliser, with words that were joined."""

import json

from whisper_normalizer import english

from metrics import logs

METHOD = "normalized-word-errors"
QUICK = 3_000
FULL = 20_000
SAID = """the a cat sat on mat hello isn't won't he'd been she's gone i'ma going y'all let's mr mr. dr
st jr ma'am o'clock hmm mm uh um and a half color colour honour grey theatre realise naïve café Zürich
straße œuvre İstanbul [noise] (laughs) <unk> ice cream some thing every one never the less x-ray o'neil's
n't 's got 'til ... , - ? ½ ² ٣٤ 漢字 ™ ¿qué?""".split()
FIGURES = """1 1s 2 10 007 1,000 12,345,678 1,2,3 3.14 1.0 $20 $1 £3.50 €0.07 ¢5 $0.05 50% % 1960s 274th 32nd
1st a1 b2b 0 100 999 192.168.0.1 .5 5. -5 +7 123456789012345678901234567890123456789012345""".split()


def make(folder, size, rng):
    numbers = sorted(english.EnglishNumberNormalizer().words)
    lists = [SAID, numbers, FIGURES, ["  ", " '", "million", "and a half", "$2 and ¢7", "per cent"]]

    def word(kind):
        words = lists[kind]
        found = words[int(rng.integers(len(words)))]
        return found.upper() if rng.random() < 0.1 else found

    manifest, answers = [], []
    for _ in range(size):
        weights = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1]][int(rng.random() < 0.4)]
        said = [word(kind) for kind in rng.choice(4, int(rng.integers(0, 25)), p=weights)]
        duration = float(rng.random() * 33)
        manifest.append({"transcript": " ".join(said), "original_duration": duration})
        if duration > 30:
            continue
        heard = ""
        for one in said:
            chance = rng.random()
            heard += "" if chance < 0.05 else word(0) if chance < 0.1 else one.lower()
            heard += "" if chance > 0.9 else " "
        answers.append((len(answers), heard.encode()))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    spellings = english.EnglishSpellingNormalizer().mapping
    (folder / "spellings.json").write_text(json.dumps(spellings))
    # Each entry counts, also a second one of a sample.
    answers += answers[:3]
    logs.write(folder, [answers[at] for at in rng.permutation(len(answers))])
    return {"with": {"manifest": "manifest.json", "spellings": "spellings.json"}, "element": None,
            "choose": {"labels": "text"}}


def distance(found, wanted):
    row = list(range(len(wanted) + 1))
    for at, word in enumerate(found, 1):
        diagonal, row[0] = row[0], at
        for column, other in enumerate(wanted, 1):
            diagonal, row[column] = row[column], min(
                row[column] + 1, row[column - 1] + 1, diagonal + (word != other))
    return row[-1]


def joined(found, wanted):
    """Both lists from the front, with up to three words joined where that is a word."""
    left, right = [], []
    while found and wanted:
        one, other = 1, 1
        for count in 1, 2, 3:
            if len(wanted) >= count and "".join(wanted[:count]) == found[0]:
                other = count
                break
            if len(found) >= count and "".join(found[:count]) == wanted[0]:
                one = count
                break
        left.append("".join(found[:one]))
        right.append("".join(wanted[:other]))
        found, wanted = found[one:], wanted[other:]
    return left + found, right + wanted


def peer(folder):
    normalizer = english.EnglishTextNormalizer()
    # What this package adds to the normaliser that the accuracy script uses.
    for word in "kinda", "sorta", "dunno", "cause":
        normalizer.replacers.pop(rf"\b{word}\b", None)
    said = [utterance["transcript"] for utterance in json.loads((folder / "manifest.json").read_text())
            if utterance["original_duration"] <= 30]
    errors = words = 0
    for index, answer in logs.read(folder):
        found, wanted = (normalizer(text).split() for text in (answer.decode(), said[index]))
        errors += distance(*joined(found, wanted))
        words += len(wanted)
    return {"ACCURACY": f"{100 * (1 - errors / words):.10f}"}
