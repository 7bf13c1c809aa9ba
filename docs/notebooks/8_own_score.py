# %% [markdown]
# # Your own score, as a plug-in
#
# **What to expect.** You invent a score, use it at once, make it a plug-in with a name, and train a
# model with it. Less than half a minute.

# %%
from pathlib import Path

import torch

import regard
from regard.core.plugins import load_plugins

torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# **A score is a function** of queries (…, T, D) and keys (…, S, D) that gives (…, T, S). Ours is
# minus the distance: near keys get much weight.


# %%
def distance(q, k):
    return -torch.cdist(q, k)


# %%
points = torch.tensor([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
_, weights = regard.attention(points, points, points, score=distance, need_weights=True)
weights

# %% [markdown]
# It works in a layer with several heads too, and gradients flow through it.

# %%
layer = regard.MultiHeadAttention(d_model=16, n_heads=4, score=distance)
x = torch.randn(1, 5, 16, requires_grad=True)
layer(x).sum().backward()
x.grad.shape

# %% [markdown]
# **A plug-in** is a Python file that enters the score in the registry. From then on it has a name,
# and recipes, models, `--schema` and the command line know it.

# %%
Path("my_score.py").write_text(
    '''
import torch
from regard.functional.scores import SCORES, ScoreKind


@SCORES.add("distance")
@ScoreKind
def distance(q, k):
    """Minus the distance of a query and a key."""
    return -torch.cdist(q, k)
'''
)
load_plugins(["my_score.py"])

# %% [markdown]
# **Train with it**, and beside it the usual one. The task is the built-in `copy`, made small.

# %%
small = {"d_model": 64, "n_layers": 1, "d_ff": 128, "n_train": 6000}
quick = {"max_steps": 400, "batch_tokens": 256, "lr": 3e-3, "warmup_steps": 30, "eval_every": 200}
runs = {
    score: regard.train("copy", f"runs/{score}", score=score, **small, **quick)
    for score in ("scaled_dot", "distance")
}

# %%
for score, run in runs.items():
    print(f"{score:11} {run.evaluate('valid').scores['exact_match']:6.1%} copied without a fault")

# %% [markdown]
# The six steps show *your* score, for they read the registry too.

# %%
runs["distance"].explain("d a c b").steps("a", layer=0, head=0)

# %%
runs["distance"].explain("d a c b e")

# %% [markdown]
# In a shell the same is `regard train mine.yaml --set score=distance --plugin my_score.py`. A run
# folder remembers which plug-in it needs.
#
# ## Change something
#
# 1. Square the distance, or take `p=1`. Does it still learn?
# 2. Try a score that ignores the keys, or one that ignores the queries.
# 3. `examples/plugin` of the project brings a model and a task of its own. Read it.
