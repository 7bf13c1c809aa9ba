# %% [markdown]
# # From Bahdanau to the Transformer
#
# **What to expect.** Three systems learn to write letters backwards: an LSTM without attention,
# Bahdanau's (2015), a Transformer (2017). You see their scores and where they look. Half a minute.

# %%
import regard

# %% [markdown]
# The task: `c a b` → `b a c`. It is a translation in which every word order is wrong, so a model
# must look at the right place. The data is built in; a recipe is a mapping.

# %%
recipe = {
    "data": {"world": "reverse", "n_train": 6000},
    "text": {"kind": "word"},
    "model": {"preset": "bahdanau2015", "d_model": 64, "dropout": 0.0},
    "train": {
        "max_steps": 300,
        "batch_tokens": 256,
        "lr": 3e-3,
        "warmup_steps": 30,
        "schedule": "linear",
        "label_smoothing": 0.0,
        "eval_every": 100,
    },
    "decode": {"max_len": 32},
}

# %% [markdown]
# **1. No attention.** An encoder reads all letters into one vector; a decoder writes from it. The
# bar moves while it learns.

# %%
bottleneck = regard.train(recipe, "runs/bottleneck", preset="sutskever2014", n_layers=1)
bottleneck.evaluate("valid")

# %% [markdown]
# **2. Bahdanau.** At each step the decoder looks back at all states of the encoder:
# score = vᵀ tanh(W_q q + W_k k), a softmax, a weighted sum.

# %%
bahdanau = regard.train(recipe, "runs/bahdanau")
bahdanau.evaluate("valid")

# %% [markdown]
# Where does it look? Rows are what it writes, columns what it reads. A reversal is a line from
# the upper right to the lower left.

# %%
bahdanau.explain("a b c d e f")

# %% [markdown]
# **3. The Transformer.** No recurrence at all: attention reads, attention writes. It knows the
# order of the letters only from positions, so it needs some more steps.

# %%
blocks = {"n_layers": 2, "n_heads": 4, "d_ff": 128}
transformer = regard.train(
    recipe, "runs/transformer", preset="transformer", **blocks, max_steps=700, eval_every=350
)
transformer.evaluate("valid")

# %%
transformer.explain("a b c d e f")

# %% [markdown]
# ## The same sentence, three times

# %%
for name, run in (
    ("no attention", bottleneck),
    ("bahdanau", bahdanau),
    ("transformer", transformer),
):
    print(f"{name:14}", run.translate("a b c d e f g h"))

# %% [markdown]
# ## One step in numbers
#
# Click a token above, or ask in Python: how does the first letter that the Transformer writes
# attend?

# %%
transformer.explain("a b c d").steps("d", layer=1, head=0)

# %% [markdown]
# ## Change something
#
# 1. Take Luong's system and another score: `preset="luong2015", score="dot"`.
# 2. Train the Transformer with `positions="none"`. Which letters does it still get right?
# 3. How many steps does the system without attention need? Try `max_steps=1500`.
