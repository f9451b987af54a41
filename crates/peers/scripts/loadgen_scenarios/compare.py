"""Compares what two modules left of the same case; what may differ is in differences.py."""

import difflib
import re
from collections import Counter

# Findings of a case that are told; the rest is counted.
TOLD = 6
LONG = 200
BEFORE = 40


def compare(case, theirs, ours, differences, extras=("theirs", "ours")):
    """Every difference between the parts of two observations that no entry allows.

    `extras` are the kinds of entries for items of one side alone: the left's and the right's.
    """
    left, right = extras
    findings = []
    for part in list(dict.fromkeys([*theirs, *ours])):
        if part not in theirs or part not in ours:
            side = "the reference" if part in theirs else "ours"
            findings.append(f"{part}: only {side} has it")
            continue
        allowed = [one for one in differences if one.is_about(case, part)]
        a, b = theirs[part], ours[part]
        a, b = (
            without_extras(a, b, [one for one in allowed if one.kind == left]),
            without_extras(b, a, [one for one in allowed if one.kind == right]),
        )
        b = spread(b, [one for one in allowed if one.kind == "times"])
        findings += [f"{part}: {finding}" for finding in compare_items(a, b, allowed)]
    return findings


def without_extras(items, other, extras):
    """The items that no entry expects on this side alone, and those that the other side has too."""
    kept, there = [], Counter(other) if extras else Counter()
    for item in items:
        entry = next((one for one in extras if one.matches(item)), None)
        if entry and not there[item]:
            entry.hits += 1
            continue
        there[item] -= 1
        kept.append(item)
    return kept


def spread(items, entries):
    """The items, those that stand for many as often as they say."""
    result = []
    for item in items:
        entry = next((one for one in entries if one.matches(item)), None)
        times = int(re.search(entry.pattern, item.value).group(1)) if entry else 1
        if entry:
            entry.hits += 1
            item = item._replace(value=re.sub(entry.pattern, "", item.value))
        result += [item] * times
    return result


def compare_items(theirs, ours, allowed):
    for tag, a0, a1, b0, b1 in aligned([item.key for item in theirs], [item.key for item in ours]):
        if tag == "equal":
            for a, b in zip(theirs[a0:a1], ours[b0:b1]):
                finding = compare_values(a, b, allowed)
                if finding:
                    yield finding
            continue
        for item in theirs[a0:a1]:
            yield f"only the reference has {shown(item)}"
        for item in ours[b0:b1]:
            yield f"only ours has {shown(item)}"


def aligned(theirs, ours):
    """How two lists of keys go together: spans that are equal, and spans that are not."""
    if theirs == ours:
        return [("equal", 0, len(theirs), 0, len(ours))]
    return difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()


def compare_values(theirs, ours, allowed):
    """What is different in two values of a key once every entry for it is applied, or None."""
    if theirs.value == ours.value:
        return None
    a, b = theirs.value, ours.value
    applied = []
    for entry in allowed:
        if entry.kind not in ("value", "rule") or not entry.matches(theirs):
            continue
        before = a, b
        a, b = entry.applied(a, b)
        if entry.explains(*before):
            applied.append(entry)
    if a != b:
        return f"{theirs.key}: the reference has {around(a, b)}, ours {around(b, a)}"
    for entry in applied:
        entry.hits += 1
    return None


def around(text, other):
    """The part of a text that differs from another, with a little before it."""
    same = next(
        (i for i, (a, b) in enumerate(zip(text, other)) if a != b), min(len(text), len(other))
    )
    start = max(0, same - BEFORE)
    return ("..." if start else "") + shortened(text[start:])


def shown(item):
    return shortened(f"{item.key}: {item.value}")


def shortened(text):
    return text if len(text) <= LONG else f"{text[:LONG]}... ({len(text)} characters)"


def report(findings):
    """The findings to print."""
    more = len(findings) - TOLD
    return findings[:TOLD] + ([f"... and {more} more"] if more > 0 else [])


def masked(pattern, text):
    """The text with what a pattern finds replaced, and what it found."""
    return re.sub(pattern, "#", text), [match.group() for match in re.finditer(pattern, text)]
