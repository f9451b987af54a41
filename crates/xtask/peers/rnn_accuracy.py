"""How far layers in bf16 and int8 are from float64: Dyno's beside OpenVINO's bf16, and beside the better of ONNX Runtime's
and PyTorch's dynamic int8, with the same weights and inputs. Ours must be no further, by the mean of squares and,
but for what one number of thousands does by chance, by the greatest; what is allowed beside that is said below.

usage: rnn_accuracy.py EXAMPLES FOLDER [--quick]
"""

import os
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np

import rnn

ROWS = [
    (64, 64, 1, 100), (256, 64, 1, 100), (1024, 64, 1, 100), (64, 256, 1, 100), (256, 256, 1, 1), (256, 256, 1, 100),
    (64, 64, 10, 100), (256, 256, 10, 100),
]
# The greatest of two sets of errors of the same size differ by this much from seed to seed.
GREATEST = 1.25
# Of one row, ONNX Runtime's bytes span its least to its greatest number, Dyno's as far to either side of zero:
# steps that are 5 to 8 % wider. Of more rows Dyno's are finer, one span each.
ONE_ROW = 1.15


def peers_of(case, precision):
    makers = [rnn.openvino_peers] if precision == "bf16" else [rnn.onnxruntime_peers, rnn.torch_peers]
    found = {}
    for make in makers:
        try:
            for name, threads, call in make(case, precision):
                if name.endswith(precision) and name not in found:
                    found[name] = np.array(call(), np.float64)
        except ImportError as error:
            print(f"without {make.__name__[:-6]}: {error}")
    return found


def dyno(case, precision, examples, folder):
    import onnx

    inputs, units, batch, steps = case.row
    model = os.path.join(folder, "case.onnx")
    onnx.save(case.onnx(), model)
    case.x.tofile(os.path.join(folder, "x"))
    words = [os.path.join(examples, "layer"), model, "0", str(batch), precision, folder]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(os.path.join(folder, "y"), np.float32).reshape(steps, batch, units)


def main():
    examples, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    rows = ROWS[::3] if "--quick" in sys.argv else ROWS
    worse, compared = [], 0
    for precision in ("bf16", "int8"):
        for kind in rnn.GATES:
            for row in rows:
                case = rnn.Case(kind, row)
                reference = case.reference()
                errors = lambda found: (float(np.sqrt(np.mean((found - reference) ** 2))), float(np.abs(found - reference).max()))
                peers = {name: errors(found) for name, found in peers_of(case, precision).items()}
                if not peers:
                    continue
                ours = errors(dyno(case, precision, examples, folder))
                best = min(peers, key=lambda name: peers[name][0])
                name = f"{precision} {kind} " + "x".join(map(str, row))
                line = ", ".join(f"{peer} {mean:.1e} {most:.1e}" for peer, (mean, most) in peers.items())
                print(f"{name}: dyno {ours[0]:.1e} {ours[1]:.1e}, {line}", flush=True)
                compared += 1
                allowed = ONE_ROW if precision == "int8" and row[2] * row[3] == 1 else 1
                if ours[0] > allowed * peers[best][0] or ours[1] > GREATEST * peers[best][1]:
                    worse.append(name)
    if compared == 0:
        print("no peer can be had")
        sys.exit(3)
    if worse:
        print("further from float64 than the best peer: " + "; ".join(worse))
        sys.exit(1)


main()
