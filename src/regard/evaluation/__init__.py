"""Texts, ids and weights to numbers.

Metrics of texts and of labels enter the registry here, before anybody can ask it for one.
"""

from regard.evaluation import text_metrics

# isort: split
from regard.evaluation import label_metrics  # tables show metrics in this order

__all__ = ["label_metrics", "text_metrics"]
