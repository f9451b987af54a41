"""Category paths, in answers of a schema that pydantic checks."""

import json

from pydantic import BaseModel, ConfigDict, ValidationError

from metrics import logs

METHOD = "hierarchical-f1"
QUICK = 500
FULL = 48_000


class Product(BaseModel):
    model_config = ConfigDict(extra="forbid")
    category: str
    brand: str
    is_secondhand: bool


def path(rng):
    return " > ".join(f"{level}{rng.integers(0, 3)} & caf\u00e9" for level in "ABCDE"[: int(rng.integers(1, 6))])


def make(folder, size, rng):
    wanted = [path(rng) for _ in range(size)]
    answers = []
    for at, right in enumerate(wanted):
        category = right if rng.random() < 0.5 else path(rng)
        category = str(rng.choice([category, category, category.replace(" > ", "  >  "), category + " > F", f" {category} ", ""]))
        # No NumPy values: json writes Python's only.
        second_hand = [True, False, 0, 1, 1.0, 2, "yes", "OFF", "maybe", None][int(rng.integers(0, 10))]
        product = {"category": category, "brand": "x", "is_secondhand": second_hand}
        chance = rng.random()
        if chance < 0.03:
            product["more"] = 1
        elif chance < 0.06:
            del product["brand"]
        elif chance < 0.08:
            product["category"] = [category]
        text = json.dumps(product, ensure_ascii=bool(rng.random() < 0.5))
        text = "```json\n" + text + "\n```" if rng.random() < 0.05 else text + "\n" if rng.random() < 0.1 else text
        text = str(["", "[]", "null", '["a", "b", true]'][at % 4]) if rng.random() < 0.03 else text
        answers.append((at, text.encode()))
    references = [{"ground_truth_category": category, "ground_truth_brand": "x"} for category in wanted]
    (folder / "references.json").write_text(json.dumps(references))
    answers += answers[:9]
    order = rng.permutation(len(answers))
    logs.write(folder, [answers[at] for at in order])
    return {"with": {"reference": "references.json"}, "element": None}


def peer(folder):
    references = json.loads((folder / "references.json").read_text())
    shared = found = wanted = 0
    for index, answer in logs.read(folder):
        right = [level.strip() for level in references[index]["ground_truth_category"].split(" > ")]
        try:
            said = [level.strip() for level in Product.model_validate_json(answer).category.split(" > ")]
        except ValidationError:
            said = [None] * len(right)
        found, wanted = found + len(said), wanted + len(right)
        for one, other in zip(said, right):
            if one != other:
                break
            shared += 1
    precision, recall = shared / found, shared / wanted
    return {"F1_HIERARCHICAL": f"{2 * precision * recall / (precision + recall):.12f}"}
