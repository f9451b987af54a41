"""Transcripts by jiwer, of the utterances that are not too long."""

import json

import jiwer
import numpy

from metrics import logs

METHOD = "word-errors"
QUICK = 200
FULL = 20_000
LABELS = " abcdefghijklmnopqrstuvwxyz'"


def make(folder, size, rng):
    letters = list(LABELS[1:])
    words = ["".join(rng.choice(letters, rng.integers(1, 9))) for _ in range(300)]
    manifest, answers = [], []
    while len(answers) < size:
        said = [str(word) for word in rng.choice(words, rng.integers(1, 35))]
        duration = float(rng.random() * 16)
        manifest.append({"transcript": " ".join(said), "original_duration": duration})
        if duration > 15:
            continue
        heard = []
        for word in said:
            chance = rng.random()
            heard += [] if chance < 0.03 else [str(rng.choice(words))] if chance < 0.08 else [word]
            heard += [str(rng.choice(words))] if chance > 0.98 else []
        numbers = [LABELS.index(letter) for letter in " ".join(heard)]
        answers.append((len(answers), numpy.array(numbers, numpy.int8).tobytes()))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    # Each entry counts, also a second one of a sample.
    answers.append(answers[0])
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"manifest": "manifest.json"}, "element": "int8"}


def peer(folder):
    said = [utterance["transcript"] for utterance in json.loads((folder / "manifest.json").read_text())
            if utterance["original_duration"] <= 15]
    wanted, found = [], []
    for index, answer in logs.read(folder):
        wanted.append(said[index])
        found.append("".join(LABELS[number] for number in numpy.frombuffer(answer, numpy.int8)))
    return {"WER": f"{100 * (1 - jiwer.wer(wanted, found)):.10f}"}
