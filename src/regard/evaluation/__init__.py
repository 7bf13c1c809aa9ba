"""Texts, ids and weights to numbers.

All metrics enter the registry here, before anybody can ask it for one.
"""

from regard.evaluation import text_metrics

# isort: split
from regard.evaluation import label_metrics  # tables show metrics in this order

# isort: split
from regard.evaluation import captions, facts

__all__ = ["captions", "facts", "label_metrics", "text_metrics"]
