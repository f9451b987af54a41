"""Systems under test and a sample library that write down every call they get."""

import ctypes
import dataclasses
import queue
import threading
import time


@dataclasses.dataclass(frozen=True)
class System:
    """How the system of a case behaves; plain data, so that both modules get the same."""

    # "sut": ConstructSUT; "fast": ConstructFastSUT; "qdl": ConstructQDL.
    kind: str = "sut"
    name: str = "a system over the network"
    # "inline": inside the issue call; "thread": from one other thread, in order;
    # "flush": inside the flush call, which only Server and Offline get to.
    answer: str = "inline"
    # One completion call a sample, last sample first, instead of one a query.
    one_by_one: bool = False
    # Every so many queries one is answered in the flush call.
    hold_every: int = 0
    # Runs (counted by flushes) whose answers wait for the flush call.
    slow_runs: tuple = ()
    # Seconds slept in the first issue call of a run, in each, and in a flush that answers.
    sleep_first_s: float = 0.0
    sleep_each_s: float = 0.0
    sleep_flush_s: float = 0.0
    # Bytes of a response and of what comes with its first token.
    size: int = 4
    first_size: int = 3
    # Calls FirstTokenComplete, and gives as many tokens with each sample (0: does not say).
    first_token: bool = False
    tokens: int = 0
    # Tokens of single samples, by their place in the order of issue.
    tokens_of: dict = dataclasses.field(default_factory=dict)
    # Gives a response_cb.
    fetches: bool = False
    # Misuse, by the place of the sample in the order of issue.
    completed_twice: tuple = ()
    first_token_missing: tuple = ()
    first_token_late: tuple = ()
    first_token_twice: tuple = ()
    # The issue call (from 0) that raises ValueError.
    raises_at: int = -1


def payload(index, size):
    """What the system answers to a sample: bytes that differ from sample to sample."""
    return bytes((index * 7919 + 31 * i) % 256 for i in range(size))


class Recorder:
    """A system under test and its sample library, for one process."""

    def __init__(self, loadgen, system):
        self.loadgen = loadgen
        self.system = system
        self.caller = threading.get_ident()
        # What was called, in order. What a completing thread calls is apart: its place is chance.
        self.calls = []
        self.fetched = []
        self.names = 0
        self.other_thread = False
        self.ids = set()
        self.repeated_ids = 0
        self.issued = 0
        self.queries_of_run = 0
        self.runs = 0
        self.held = []
        self.buffers = []
        self.work = queue.SimpleQueue()
        self.place_of = {}
        self.index_of = {}
        self.worker = None
        if system.answer == "thread":
            self.worker = threading.Thread(target=self._answer_from_queue, daemon=True)
            self.worker.start()

    def construct(self):
        """The handle of the system."""
        construct = self.loadgen
        if self.system.kind == "fast":
            return construct.ConstructFastSUT(self.issue_fast, self.flush)
        if self.system.kind == "qdl":
            return construct.ConstructQDL(self.issue, self.flush, self.name)
        return construct.ConstructSUT(self.issue, self.flush)

    def destroy(self, handle):
        destroy = {"fast": "DestroyFastSUT", "qdl": "DestroyQDL"}.get(
            self.system.kind, "DestroySUT"
        )
        getattr(self.loadgen, destroy)(handle)

    def close(self):
        if self.worker:
            self.work.put(None)
            self.worker.join()

    def observed(self):
        return {
            "calls": self.calls,
            "fetched": self.fetched,
            "name calls": self.names,
            "from another thread": self.other_thread,
            "ids that repeat": self.repeated_ids,
        }

    # ---- what the module calls ----

    def name(self):
        self.names += 1
        return self.system.name

    def load(self, samples):
        self.calls.append(["load", list(samples)])

    def unload(self, samples):
        self.calls.append(["unload", list(samples)])

    def issue(self, samples):
        self._issue([s.id for s in samples], [s.index for s in samples])

    def issue_fast(self, ids, indices):
        self._issue(list(ids), list(indices))

    def flush(self):
        self.calls.append(["flush"])
        held, self.held = self.held, []
        if held:
            time.sleep(self.system.sleep_flush_s)
        for ids in held:
            self._answer(ids)
        self.runs += 1
        self.queries_of_run = 0
        # An id is an address in the reference: the next run may have it again.
        self.ids.clear()

    # ---- answers ----

    def _issue(self, ids, indices):
        system = self.system
        self.calls.append(["issue", indices])
        self.other_thread |= threading.get_ident() != self.caller
        self.repeated_ids += sum(i in self.ids for i in ids) + (0 in ids)
        self.ids.update(ids)
        for one, index in zip(ids, indices):
            self.place_of[one], self.index_of[one] = self.issued, index
            self.issued += 1
        query, self.queries_of_run = self.queries_of_run, self.queries_of_run + 1
        if query == system.raises_at:
            raise ValueError("the system has had enough")
        time.sleep(system.sleep_each_s + (system.sleep_first_s if query == 0 else 0))
        held = system.hold_every and query % system.hold_every == 0
        if held or system.answer == "flush" or self.runs in system.slow_runs:
            self.held.append(ids)
        elif system.answer == "thread":
            self.work.put(ids)
        else:
            self._answer(ids)

    def _answer_from_queue(self):
        while (ids := self.work.get()) is not None:
            self._answer(ids)

    def _answer(self, ids):
        if self.system.one_by_one:
            for one in reversed(ids):
                self._complete([one])
        else:
            self._complete(ids)

    def _complete(self, ids):
        system = self.system
        if system.first_token:
            wrong = system.first_token_missing + system.first_token_late
            self._first_tokens([i for i in ids if self.place_of[i] not in wrong])
            self._first_tokens([i for i in ids if self.place_of[i] in system.first_token_twice])
        late = [i for i in ids if self.place_of[i] in system.first_token_late]
        # Before the others: once a run is complete, the reference frees what a late call names.
        self._complete_now(late + [i for i in ids if self.place_of[i] in system.completed_twice])
        self._first_tokens(late)
        self._complete_now([i for i in ids if i not in late])

    def _complete_now(self, ids):
        responses = [self._response(i, self.system.size, self._tokens(i)) for i in ids]
        if not responses:
            return
        if self.system.fetches:
            self.loadgen.QuerySamplesComplete(responses, self._fetch)
        else:
            self.loadgen.QuerySamplesComplete(responses)

    def _first_tokens(self, ids):
        if ids:
            self.loadgen.FirstTokenComplete(
                [self._response(i, self.system.first_size, 0) for i in ids]
            )

    def _tokens(self, one):
        return self.system.tokens_of.get(self.place_of[one], self.system.tokens)

    def _response(self, one, size, tokens):
        if not size:
            return self.loadgen.QuerySampleResponse(one, 0, 0, tokens)
        # Kept for the whole run, as a batching system does.
        self.buffers.append(ctypes.create_string_buffer(payload(self.index_of[one], size), size))
        address = ctypes.addressof(self.buffers[-1])
        return self.loadgen.QuerySampleResponse(one, address, size, tokens)

    def _fetch(self, response):
        self.fetched.append(self.index_of[response.id])
