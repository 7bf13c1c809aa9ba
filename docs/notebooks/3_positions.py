# %% [markdown]
# # Positions
#
# **What to expect.** Attention without positions sees a bag of words. You see why, how sinusoids
# repair it, and the same small model trained with and without them. Less than half a minute.

# %%
import torch
from IPython.display import HTML

import regard
from regard import lab
from regard.functional.positions import sinusoid
from regard.visual.charts import curves
from regard.visual.matrix import matrix

# %% [markdown]
# **A bag of words.** We shuffle three words and let a layer of self-attention read both orders.
# Every word gets the very same vector: the layer cannot know the order.

# %%
torch.manual_seed(0)
layer = regard.MultiHeadAttention(d_model=16, n_heads=2)
x = torch.randn(1, 3, 16)  # john, loves, mary
order = [2, 1, 0]  # mary, loves, john
(layer(x)[:, order] - layer(x[:, order])).abs().max().item()

# %% [markdown]
# The lab says it for a whole encoder, in all six orders.

# %%
lab.permutation()

# %% [markdown]
# **Sinusoids.** Each position gets a vector of waves: sin and cos of pos / 10000^(2i/d). The first
# waves are fast, the last hardly move.

# %%
d = 32
code = sinusoid(torch.arange(40), d)
waves = {f"dimension {i}": list(enumerate(code[:, i].tolist())) for i in (0, 4, 8, 16)}
HTML(curves(waves, title="Four dimensions of the code", x_label="position", y_label="value"))

# %% [markdown]
# Two codes are similar when their positions are near. And the product depends only on the
# *distance*: it is the same along every diagonal.

# %%
near = sinusoid(torch.arange(12), d)
similar = (near @ near.T / (d / 2)).clamp(min=0)
places = [str(i) for i in range(12)]
HTML(matrix(similar.tolist(), places, places, title="Products of codes, over the largest"))

# %%
torch.testing.assert_close(code[3] @ code[5], code[23] @ code[25])

# %% [markdown]
# **Does it matter?** The task is to copy letters, for which a model must know their order. The
# same Transformer learns with sinusoids and with none: the built-in recipe `copy`, made small.

# %%
small = {"d_model": 64, "n_layers": 1, "d_ff": 128, "n_train": 6000}
quick = {"max_steps": 400, "batch_tokens": 256, "lr": 3e-3, "warmup_steps": 30, "eval_every": 200}
runs = {
    name: regard.train("copy", f"runs/{name}", positions=name, **small, **quick)
    for name in ("sinusoidal", "none")
}

# %%
for name, run in runs.items():
    right = run.evaluate("valid").scores["exact_match"]
    print(f"{name:11} {right:6.1%} copied without a fault;  d a c b → {run.translate('d a c b')}")

# %% [markdown]
# Without positions the model knows *which* letters there are, and writes them in an order of its
# own.

# %%
runs["sinusoidal"].explain("d a c b e")

# %% [markdown]
# ## Change something
#
# 1. Train with `positions="learned"`, `"rotary"` or `"alibi"`.
# 2. Train on the world `sort` in place of `copy`. Why does it need no positions in the source?
# 3. Copy a text that is longer than any it has seen: `run.translate("a b c d e f g h i j k l m")`.
