"""Who attends: the readable reference, or a fused kernel that builds no weights.

A fused kernel is taken whenever one can do the work: the score is an inner product, the weights
are a softmax, and no prior multiplies them. Which one: ``table``.
"""

from regard.functional.kernels.call import Call as Call
from regard.functional.kernels.switch import may_fuse as may_fuse
from regard.functional.kernels.switch import reference_only as reference_only
from regard.functional.kernels.table import TABLE as TABLE
from regard.functional.kernels.table import choose as choose
