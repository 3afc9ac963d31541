"""One run of bilby's plugin in a process of its own; a signal comes at an evaluation named on the command line."""

import os
import sys
import warnings
from signal import Signals

import bilby
import numpy as np
from scipy.special import i0

LOG_EVIDENCE = np.log(np.sqrt(2 * np.pi) * 0.5 / 10 * i0(2))
OPTIONS = {"draws": 600, "tune": 640, "chains": 8, "ladder": [1.0, 0.4, 0.1, 0.0], "progress": False, "seed": 3}


class Likelihood(bilby.Likelihood):
    """Normal in ``a``, von Mises in ``phase``; at evaluation ``at`` it sends its own process a signal."""

    def __init__(self, send=None, at=0):
        super().__init__()
        self.send, self.at, self.n = send, at, 0

    def log_likelihood(self, parameters=None):
        self.n += 1
        if self.send is not None and self.n == self.at:
            os.kill(os.getpid(), self.send)
        p = self.parameters if parameters is None else parameters
        return -0.5 * ((p["a"] - 1) / 0.5) ** 2 + 2 * np.cos(p["phase"] - 0.1)

    def noise_log_likelihood(self):
        return 0.0


def priors():
    return bilby.core.prior.PriorDict({
        "a": bilby.core.prior.Uniform(-5, 5, boundary="reflective"),
        "phase": bilby.core.prior.Uniform(0, 2 * np.pi, boundary="periodic"),
    })  # fmt: skip


def run(outdir, likelihood=None, prior=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bilby.run_sampler(
            likelihood or Likelihood(), prior or priors(), sampler="tempering", outdir=str(outdir), label="x",
            **{**OPTIONS, "save": False, **options},
        )  # fmt: skip


if __name__ == "__main__":
    outdir, name, at = sys.argv[1:4]
    run(outdir, Likelihood(Signals[name], int(at)), check_point_delta_t=0.5, exit_code=77)
