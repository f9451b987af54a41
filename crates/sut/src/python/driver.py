"""Calls a function of the user for Dyno. Descriptor 0 is a socket with Dyno at the other end.

Each frame is its length and its kind, two numbers of 8 bytes, and a payload. A list in a payload is
its length and a reserved number, and its items: type, rank, 6 reserved bytes, size, dimensions,
zeros up to a multiple of 16, data, zeros up to a multiple of 16. Numbers are little-endian.
"""

import collections.abc
import json
import numbers
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback

HELLO, CALL, READY, ANSWERS, FAILED = range(1, 6)
BYTES, TEXT, JSON, FAILURE = 0, 1, 2, 3
ELEMENTS = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]
# Beginnings of the types of PyTorch that NumPy lacks. Their values are those of float32, too.
WITHOUT_NUMPY = ("torch.bfloat16", "torch.float8_")
FIRST = 16
SIZE = 16

try:
    import numpy
except Exception:
    numpy = None


def words(error):
    """Returns the type and message of an exception, and the innermost line outside of this file."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    lines = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != "<string>"]
    lines = [f for f in lines if not f.filename.startswith("<frozen")]
    if isinstance(error, SystemExit):
        text = "the function ended Python with exit(%r)" % (error.code,)
    if lines:
        text += " (%s, line %s)" % (lines[-1].filename, lines[-1].lineno)
    return text


def named(hello):
    """Imports what the user named; the function may be an attribute of an attribute."""
    import importlib
    import importlib.util

    if hello["file"]:
        path = os.path.abspath(hello["file"])
        sys.path[0] = os.path.dirname(path)
        name = os.path.splitext(os.path.basename(path))[0]
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    else:
        sys.path[0] = os.getcwd()
        module = importlib.import_module(hello["module"])
    found = module
    for part in hello["function"].split("."):
        found = getattr(found, part)
    if isinstance(found, type):
        found = found()
    if not callable(found):
        raise TypeError("%s is not a function, but %s" % (hello["function"], type(found).__name__))
    return found


class Dyno:
    """The other end of the socket."""

    def __init__(self):
        self.process = os.getpid()
        self.socket = socket.socket(fileno=os.dup(0))
        # User code that reads standard input finds its end. Standard output is that of errors.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def end_with_dyno(self):
        """Ends this process, and those that it started, when Dyno ends while the function runs."""

        def watch():
            closed = select.poll()
            # Without events it waits until both directions of the connection are closed: Dyno only
            # closes one of them when it needs no further calls.
            closed.register(self.socket, 0)
            if any(event & select.POLLHUP for _, event in closed.poll()):
                os.kill(0, signal.SIGKILL)

        threading.Thread(target=watch, name="dyno", daemon=True).start()

    def exactly(self, size):
        """Returns a new buffer of this size, or None at the end."""
        buffer = bytearray(size)
        view, at = memoryview(buffer), 0
        while at < size:
            got = self.socket.recv_into(view[at:])
            if got == 0:
                return None
            at += got
        return buffer

    def receive(self):
        header = self.exactly(16)
        if header is None:
            return None, None
        size, kind = struct.unpack("<QQ", header)
        return kind, self.exactly(size)

    def send(self, kind, parts):
        # A child that the function forked has the socket, too. Its parent answers.
        if os.getpid() != self.process:
            sys.exit()
        size = sum(len(part) for part in parts)
        head = struct.pack("<QQ", size, kind)
        if size < 65536:
            self.socket.sendall(b"".join([head] + parts))
            return
        self.socket.sendall(head)
        for part in parts:
            self.socket.sendall(part)

    def fail(self, error):
        """Reports an exception. In a child that the function forked, it ends the child."""
        if os.getpid() != self.process:
            raise error
        self.send(FAILED, [words(error).encode("utf-8", "replace")])


def value(code, shape, data):
    """Returns an item of a sample as the function gets it."""
    if code == TEXT:
        return str(data, "utf-8")
    if code == JSON:
        return json.loads(bytes(data))
    if code == BYTES:
        return bytes(data)
    name = ELEMENTS[code - FIRST]
    if name == "int64" and not shape:
        return struct.unpack("<q", data)[0]
    if numpy is None:
        return bytes(data)
    if name == "bfloat16":
        try:
            import ml_dtypes

            return numpy.frombuffer(data, ml_dtypes.bfloat16).reshape(shape)
        except ImportError:
            name = "uint16"
    return numpy.frombuffer(data, name).reshape(shape)


def samples(payload, names):
    """Returns the samples of a call: the input itself if there is only one, else all by name."""
    view, at = memoryview(payload), 16
    (count, _) = struct.unpack_from("<QQ", payload)
    found = []
    for _ in range(count):
        inputs = []
        for _ in names:
            code, rank, size = struct.unpack_from("<BB6xQ", payload, at)
            at += SIZE
            shape = struct.unpack_from("<%dQ" % rank, payload, at)
            at = -(-(at + 8 * rank) // SIZE) * SIZE
            inputs.append(value(code, shape, view[at : at + size]))
            at = -(-(at + size) // SIZE) * SIZE
        found.append(inputs[0] if len(names) == 1 else dict(zip(names, inputs)))
    return found


def array(output):
    """Returns an array's code, shape and bytes."""
    name = output.dtype.name
    if name not in ELEMENTS and output.dtype.kind == "f":
        output, name = output.astype("float64"), "float64"
    if name not in ELEMENTS:
        if output.dtype.kind not in "iu":
            raise TypeError("an output is an array of %s; return numbers" % name)
        if output.size and int(output.max()) >= 2**63:
            raise ValueError("an output has %d, above every int64; return floats" % output.max())
        output, name = output.astype("int64"), "int64"
    if output.dtype.byteorder == ">":
        output = output.astype(output.dtype.newbyteorder("<"))
    return FIRST + ELEMENTS.index(name), output.shape, output.tobytes()


def plain(output):
    """Returns arrays, their numbers and tensors as `json.dumps` takes them."""
    if hasattr(output, "tolist"):
        return output.tolist()
    raise TypeError("Object of type %s is not JSON serializable" % type(output).__name__)


def is_number(output):
    """Returns whether an output is one number, also of NumPy or PyTorch."""
    if isinstance(output, numbers.Number):
        return isinstance(output, numbers.Real)
    # Text of NumPy is a scalar, too.
    return getattr(output, "ndim", None) == 0 and not isinstance(output, (str, bytes))


def as_json(output):
    """Returns an output as JSON, which has neither NaN nor infinities."""
    try:
        return json.dumps(output, ensure_ascii=False, allow_nan=False, default=plain)
    except TypeError as error:
        # Without the line, which is one of the library.
        raise TypeError(str(error)) from None
    except ValueError as error:
        if "JSON compliant" not in str(error):
            raise
    raise ValueError("an output has NaN or an infinity, which JSON lacks; return an array")


def encoded(output, scores):
    """Returns the code, the shape and the bytes of an output."""
    if output is None:
        raise TypeError("an output is None; return an output, or an exception if the sample failed")
    if isinstance(output, (bytes, bytearray, memoryview)):
        return BYTES, (), bytes(output)
    if isinstance(output, str):
        return TEXT, (), output.encode("utf-8")
    if isinstance(output, BaseException):
        return FAILURE, (), words(output).encode("utf-8", "replace")
    if hasattr(output, "detach") and hasattr(output, "cpu"):
        output = output.detach().cpu()
        if str(getattr(output, "dtype", None)).startswith(WITHOUT_NUMPY):
            output = output.float()
    if numpy is not None and hasattr(output, "__array__"):
        return array(numpy.asarray(output))
    if scores and isinstance(output, bool):
        return FIRST + ELEMENTS.index("bool"), (), bytes([output])
    if isinstance(output, int) and not isinstance(output, bool):
        if not -(2**63) <= output < 2**63:
            raise ValueError("an output is outside of int64; return a float or text")
        return FIRST + ELEMENTS.index("int64"), (), struct.pack("<q", output)
    if isinstance(output, float):
        return FIRST + ELEMENTS.index("float64"), (), struct.pack("<d", output)
    is_list = scores and isinstance(output, (list, tuple)) and output
    if is_list and all(map(is_number, output)):
        packed = struct.pack("<%dd" % len(output), *map(float, output))
        return FIRST + ELEMENTS.index("float64"), (len(output),), packed
    return TEXT, (), as_json(output).encode("utf-8")


def items(all_of_them):
    parts = [struct.pack("<QQ", len(all_of_them), 0)]
    for code, shape, data in all_of_them:
        head = struct.pack("<BB6xQ%dQ" % len(shape), code, len(shape), len(data), *shape)
        parts += [head, bytes(-len(head) % SIZE), data, bytes(-len(data) % SIZE)]
    return parts


def outputs(function, given, scores):
    """Calls the function and returns its encoded outputs."""
    returned = function(given)
    # A set has no order, so that its outputs belong to no sample. Mappings and tables consist of names.
    others = (str, bytes, bytearray, collections.abc.Mapping, collections.abc.Set)
    is_list = hasattr(returned, "__len__") and not hasattr(returned, "columns")
    if isinstance(returned, others) or not is_list:
        kind = type(returned).__name__
        raise TypeError("the function returned %s; expected a list of outputs" % kind)
    found = []
    for output in returned:
        try:
            found.append(encoded(output, scores))
        except Exception as error:
            found.append((FAILURE, (), words(error).encode("utf-8", "replace")))
    # Not the length, which may count something else, such as the rows of what consists of columns.
    if len(found) != len(given):
        message = "the function returned %d outputs for %d samples"
        raise ValueError(message % (len(found), len(given)))
    return found


def main():
    dyno = Dyno()
    _, payload = dyno.receive()
    if payload is None:
        return
    hello = json.loads(bytes(payload))
    dyno.end_with_dyno()
    try:
        function = named(hello)
    except BaseException as error:
        dyno.fail(error)
        return
    ready = {"python": sys.version.split()[0], "numpy": getattr(numpy, "__version__", None)}
    dyno.send(READY, [json.dumps(ready).encode()])
    while True:
        kind, payload = dyno.receive()
        if payload is None:
            return
        try:
            found = outputs(function, samples(payload, hello["inputs"]), hello["scores"])
        except BaseException as error:
            dyno.fail(error)
            continue
        dyno.send(ANSWERS, items(found))


try:
    main()
except (BrokenPipeError, ConnectionResetError):
    # Dyno has ended or waits no longer.
    pass
