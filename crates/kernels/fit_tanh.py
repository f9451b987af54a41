"""Coefficients of the fitted curves in `src/activation.rs`: `python3 fit_tanh.py` prints them.

Method: tanh(x) is near x P(x^2) / Q(x^2) with Q(0) = 1, from 0 to the end of an interval. Multiplied by
Q, the error is linear in the coefficients, so that each round solves linear least squares, divided by
the Q of the round before and by tanh (relative error). Rounds differ in the weights of the points: they
are multiplied by a power of the error that the point had, which levels the greatest errors (Lawson's
method). Columns are powers of (x / end)^2, and of length 1, for the sake of the condition. The best
round is kept, and rounded to 32 bits.

The curve is used up to `cut`, which lies where it comes nearest to 1 from below: so neither tanh nor the
logistic function leaves its range. The proven bounds are those of `examples/bounds.rs`.
"""

import numpy as np

# Terms above and below, end of the interval of the fit, and where the curve is cut off.
CURVES = {"Fitted98": (5, 5, 8.5, 8.0), "Fitted76": (4, 4, 7.0, 7.0), "Fitted56": (3, 4, 6.2, 5.9)}
ROUNDS = 400


def fit(above, below, end):
    """Greatest relative error, and the coefficients of P and Q, the constant first."""
    sines = end * np.sin(np.linspace(0, np.pi / 2, 4000))
    x = np.unique(np.concatenate([sines[sines > 1e-4], np.linspace(1e-3, end, 4000)]))
    tanh, y = np.tanh(x), (x / end) ** 2
    columns = [x * y**power for power in range(above)]
    columns += [-tanh * y**power for power in range(1, below)]
    weights, q, best = np.ones_like(x), np.ones_like(x), None
    for _ in range(ROUNDS):
        scale = np.sqrt(weights) / tanh / q
        matrix = np.stack(columns, 1) * scale[:, None]
        lengths = np.linalg.norm(matrix, axis=0)
        solution = np.linalg.lstsq(matrix / lengths, tanh * scale, rcond=None)[0] / lengths
        p, q = solution[:above], np.concatenate([[1], solution[above:]])
        coefficients = [c / end ** (2 * np.arange(len(c))) for c in (p, q)]
        q = np.polyval(q[::-1], y)
        errors = np.abs(x * np.polyval(p[::-1], y) / q / tanh - 1)
        if best is None or errors.max() < best[0]:
            best = errors.max(), *coefficients
        weights *= (errors / errors.mean() + 1e-3) ** 0.7
        weights /= weights.mean()
    return best


if __name__ == "__main__":
    for name, (above, below, end, cut) in CURVES.items():
        error, p, q = fit(above, below, end)
        print(f"{name}: relative error {error:.2e} before rounding, cut off at {cut}")
        for letter, coefficients in (("p", p), ("q", q)):
            print(f"    {letter}: {[float(np.float32(c)) for c in coefficients]}")
