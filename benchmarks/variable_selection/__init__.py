"""Variable selection beside millipede and scikit-learn: ``python -m benchmarks.variable_selection --peer PYTHON``.

PYTHON is the interpreter of an environment with torch and millipede-regression; without it only our side runs. Both
sample one posterior (independent slab, unknown noise, expected size 5, no intercept) with one thread each. Effective
draws are counted the same way for both: p (1 - p) over the squared distance from a long run's inclusion probability,
by processor time without start-up. Other chains say who is right where the programs differ (``arbiters``).
``--agreement`` compares the odds of both and sets both beside all models of a few columns, ``--rounding`` works out
where the other program goes astray, ``--prediction`` sets held-out predictions beside scikit-learn's, and ``--gpu``
runs the large case on an accelerator.
"""
