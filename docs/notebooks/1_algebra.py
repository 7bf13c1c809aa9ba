# %% [markdown]
# # The algebra in numbers
#
# **What to expect.** Attention on three words, computed by hand and by the library, number by
# number. Nothing is trained. A few seconds.

# %%
import torch

import regard
from regard import lab

torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# Three words. Each has a query (what it looks for), a key (what it offers) and a value (what it
# gives). Here all vectors have two numbers, so that you can follow them with a pencil.

# %%
words = ["Thinking", "Machines", "work"]
q = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
v = torch.tensor([[10.0, 0.0], [0.0, 10.0], [5.0, 5.0]])

# %% [markdown]
# **Step 1: scores.** The inner product of each query with each key. Row = who asks, column = who
# is looked at.

# %%
scores = q @ k.T
scores

# %% [markdown]
# **Step 2: scale.** Divide by the root of the width of a key. Long vectors would otherwise give
# large scores.

# %%
scaled = scores / k.shape[-1] ** 0.5
scaled

# %% [markdown]
# **Step 3: softmax.** Each row becomes a distribution: positive, and its sum is 1.

# %%
weights = scaled.softmax(dim=-1)
weights, weights.sum(dim=-1)

# %% [markdown]
# **Step 4: the weighted sum of the values.** That is all. The library gives the same numbers.

# %%
by_hand = weights @ v
output, found = regard.attention(q, k, v, need_weights=True)
torch.testing.assert_close(output, by_hand)
torch.testing.assert_close(found, weights)
output

# %% [markdown]
# A picture says it faster: the darker the cell, the larger the weight.

# %%
from IPython.display import HTML

from regard.visual.matrix import matrix

HTML(matrix(weights.tolist(), words, words, title="Who looks at whom"))

# %% [markdown]
# ## Other scores
#
# The score is a part that you can exchange. All of these look from *Thinking*:

# %%
for name in ("dot", "scaled_dot", "content"):
    _, one = regard.attention(q, k, v, score=name, need_weights=True)
    print(f"{name:10}", [round(w, 3) for w in one[0].tolist()])

# %% [markdown]
# `content` is the cosine of two vectors: their lengths do not count. `additive` (Bahdanau) and
# `general` (Luong) have parameters, which a model learns. Here they are random.

# %%
torch.manual_seed(0)
for name in ("additive", "general"):
    score = regard.Score(name, d_query=2, d_key=2)
    _, one = regard.attention(q, k, v, score=score, need_weights=True)
    print(f"{name:10}", [round(w, 3) for w in one[0].detach().tolist()])

# %% [markdown]
# ## Masks
#
# A mask is boolean: True means *may attend*. A decoder may not look ahead, which is `causal`.

# %%
_, causal = regard.attention(q, k, v, causal=True, need_weights=True)
causal

# %% [markdown]
# A word that may see nothing gets zeros, and no error.

# %%
nothing = torch.tensor([[True, True, True], [False, False, False], [True, False, True]])
regard.attention(q, k, v, mask=nothing)

# %% [markdown]
# ## The lecture's own numbers
#
# The lab re-runs the claims of the lectures. This one computes the worked examples, and tells
# where the printed numbers are not a softmax of the printed scores.

# %%
lab.walkthrough()

# %%
lab.rows()

# %% [markdown]
# ## Change something
#
# 1. Multiply `q` by 10 and run all again. What happens to the weights? Why divide by √d?
# 2. Which query would look at *work* alone?
# 3. Swap two rows of `k` and the same two of `v`. What changes in the output?
