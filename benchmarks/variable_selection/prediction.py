"""Held-out prediction beside scikit-learn's linear models."""

import json

import numpy as np

from benchmarks.variable_selection.cases import design


def prediction(splits: int = 6) -> list[dict[str, object]]:
    """Return R^2 on held-out rows, mean and deviation over random splits."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import ARDRegression, LassoCV, RidgeCV
    from sklearn.model_selection import ShuffleSplit, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    from tempering.models import VariableSelection
    from tempering.models.variable_selection import Sampling

    diabetes = load_diabetes(return_X_y=True)
    products = PolynomialFeatures(2, include_bias=False).fit_transform(diabetes[0]), diabetes[1]
    models = {
        "VariableSelection": VariableSelection(sampling=Sampling(draws=4_000, chains=2), random_state=1),
        "LassoCV": LassoCV(max_iter=20_000),
        "ARDRegression": ARDRegression(),
        "RidgeCV": RidgeCV(np.logspace(-3, 4, 30)),
    }
    cases = {
        "diabetes, p = 10": diabetes,
        "diabetes with products, p = 65": products,
        "simulated, p = 500": design(200, 500),
    }
    rows: list[dict[str, object]] = []
    for case, (x, y) in cases.items():
        for name, model in models.items():
            folds = ShuffleSplit(splits, test_size=0.25, random_state=0)
            score = cross_val_score(make_pipeline(StandardScaler(), model), x, y, cv=folds)
            rows.append({"data": case, "model": name, "r2": float(score.mean()), "deviation": float(score.std())})
            print(json.dumps(rows[-1]), flush=True)
    return rows
