"""Compares what two modules left of the same case; what may differ is in differences.py."""

import difflib
import re

# Findings of a case that are told; the rest is counted.
TOLD = 6
LONG = 300


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
        a = without_extras(theirs[part], [one for one in allowed if one.kind == left])
        b = without_extras(ours[part], [one for one in allowed if one.kind == right])
        findings += [f"{part}: {finding}" for finding in compare_items(a, b, allowed)]
    return findings


def without_extras(items, extras):
    """The items that no entry expects on this side alone."""
    kept = []
    for item in items:
        entry = next((one for one in extras if one.matches(item)), None)
        if entry:
            entry.hits += 1
        else:
            kept.append(item)
    return kept


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
    return difflib.SequenceMatcher(None, theirs, ours).get_opcodes()


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
        return f"{theirs.key}: the reference has {shortened(a)}, ours {shortened(b)}"
    for entry in applied:
        entry.hits += 1
    return None


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
