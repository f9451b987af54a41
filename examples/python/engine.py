"""A function for `dyno run --system py:engine.py:count_words`, and a class with a state.

Dyno calls them with a list of samples and expects a list of outputs of the same length. The samples
of `--data FILE.txt` are its lines; an output that is neither bytes nor an array is logged as JSON.
"""


def count_words(samples):
    """Returns how often each word occurs in each sample."""
    return [one_count(text) for text in samples]


def one_count(text):
    counts = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts


class Engine:
    """Loads its model once: in each process, before the clock starts."""

    def __init__(self):
        self.weights = [0.5, -1.0, 2.0]

    def __call__(self, samples):
        return [self.score(text) for text in samples]

    def score(self, text):
        if not text:
            # The sample fails with these words; the others of the call do not.
            return ValueError("an empty text has no score")
        return sum(self.weights[ord(letter) % 3] for letter in text)
