"""scikit-learn estimators whose columns sit at different parties: training, and causal discovery."""

from colonnade.sklearn.columns import EstimatorError
from colonnade.sklearn.discovery import VerticalCausalDiscovery
from colonnade.sklearn.supervised import VerticalClassifier, VerticalRegressor

__all__ = ["EstimatorError", "VerticalCausalDiscovery", "VerticalClassifier", "VerticalRegressor"]
