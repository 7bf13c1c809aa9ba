# %% [markdown]
# # Soft and hard
#
# **What to expect.** Soft attention takes a mean over all places, hard attention draws one. You see
# both, why the second is harder to learn, and a translator of each kind. Half a minute.

# %%
import torch

import regard
from regard import lab

torch.set_printoptions(precision=3, sci_mode=False)

# %% [markdown]
# Four places with values 1, 2, 3 and 4, and a query that likes the third.

# %%
q = torch.tensor([[1.0, 0.0]])
k = torch.tensor([[0.0, 1.0], [0.5, 0.5], [2.0, 0.0], [0.3, 0.0]])
v = torch.tensor([[1.0], [2.0], [3.0], [4.0]])

# %% [markdown]
# **Soft**: a bit of everything.

# %%
soft, weights = regard.attention(q, k, v, need_weights=True)
weights, soft

# %% [markdown]
# **Hard**, when a trained model is used: the best place alone.

# %%
hard, weights = regard.attention(q, k, v, normaliser="hard", need_weights=True)
weights, hard

# %% [markdown]
# **Hard, while it learns**: a place is drawn with the probability that soft attention gives it. The
# mean of many draws is the soft output.

# %%
rng = torch.Generator().manual_seed(0)
chances = regard.attention(q, k, v, need_weights=True).weights[0]
drawn = torch.multinomial(chances, 10_000, replacement=True, generator=rng)
v[drawn].mean(), soft

# %% [markdown]
# **Why it is harder.** A draw has no derivative. REINFORCE estimates the gradient from what each
# draw was worth: right on average, but noisy. A baseline calms it.

# %%
lab.hard()

# %% [markdown]
# **Two translators.** Bahdanau's system learns to copy letters, once with each kind: the built-in
# recipe `copy` with another preset, made small.

# %%
small = {"preset": "bahdanau2015", "d_model": 64, "n_train": 6000}
quick = {"max_steps": 300, "batch_tokens": 256, "lr": 3e-3, "warmup_steps": 30, "eval_every": 150}
runs = {
    kind: regard.train("copy", f"runs/{kind}", normaliser=kind, **small, **quick)
    for kind in ("softmax", "hard")
}

# %%
for kind, run in runs.items():
    print(f"{kind:8} {run.evaluate('valid').scores['exact_match']:6.1%} copied without a fault")

# %%
runs["softmax"].explain("a b c d e")

# %% [markdown]
# Every row of hard attention has one 1 and no other number.

# %%
runs["hard"].explain("a b c d e")

# %% [markdown]
# ## Change something
#
# 1. Divide `q` by 10: what happens to soft attention, what to hard?
# 2. Train the hard one for more steps. Does it catch up?
# 3. `lab.hard(baseline=False)`: how much noise is there without a baseline?
