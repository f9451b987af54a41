"""The smallest thing that is compared."""

from typing import NamedTuple


class Item(NamedTuple):
    """A key and what it has, as text."""

    key: str
    value: str
