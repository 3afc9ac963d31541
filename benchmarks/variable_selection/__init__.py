"""Variable selection beside millipede and scikit-learn: ``python -m benchmarks.variable_selection --peer PYTHON``.

PYTHON is the interpreter of an environment with torch and millipede-regression; without it only our side runs. Both
sample one posterior (independent slab, unknown noise, expected size 5, no intercept) with one thread each. Effective
draws are counted the same way for both: p (1 - p) over the squared distance from a long run's inclusion probability,
by processor time without start-up. ``--agreement`` asks whether the two programs have the same posterior,
``--rounding`` works out where the other program goes astray, ``--prediction`` sets held-out predictions beside
scikit-learn's, and ``--gpu`` runs the large case on an accelerator.
"""
