# %% [markdown]
# # Heads
#
# **What to expect.** A small translator learns English to French, then every head is measured:
# where it looks, and what the translation loses without it. About a minute.

# %%
import regard
from regard import lab

# %% [markdown]
# **Why several?** A head brings home one mixture of values. Which word is the subject and which the
# object cannot both be told by one mixture. The lab tries it.

# %%
lab.heads()

# %% [markdown]
# **A translator.** The demo's recipe, at half the width and a third of its steps: good enough to be
# looked at, and not perfect.

# %%
run = regard.train(
    "transformer",
    d_model=64,
    d_ff=256,
    max_steps=400,
    batch_tokens=512,
    lr=4e-3,
    eval_every=400,
    save_every=400,
)
sentence = "the animal did not cross the street because it was too tired"
run.translate([sentence, "john loves mary"])

# %% [markdown]
# Choose an attention, a layer and a head. Which ones look at the word itself, which at a neighbour?

# %%
look = run.explain(sentence)
look

# %% [markdown]
# **Measured.** A picture of one sentence can deceive. So each head is measured on many, and removed
# to see what that costs (Δloss, ΔBLEU). A head that looks somewhere may still change nothing.

# %%
heads = run.heads(n=30)
heads

# %% [markdown]
# **On whom does a word rest?** The probability of one written word without each head.

# %%
run.importance("john loves mary", step=1)

# %% [markdown]
# **What if?** We take a head away, and the model writes again.

# %%
costly = max(heads.rows, key=lambda row: row["loss_change"])
edit = {"kind": "ablate", **{key: costly[key] for key in ("name", "layer", "head")}}
print("with it:   ", run.translate(sentence))
print("without it:", run.explain(sentence, edit=edit).translation)

# %% [markdown]
# ## Change something
#
# 1. Ablate another head, or two: `edit=[{…}, {…}]`.
# 2. Make all attention flat: `edit={"kind": "temperature", "value": 5.0}`. Or sharp: 0.2.
# 3. Train with `n_heads=1` and with `n_heads=8`. Which one is better here?
