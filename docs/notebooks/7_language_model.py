# %% [markdown]
# # A language model's inside
#
# **What to expect.** A small GPT learns English sentences of a built-in world. You read what it
# writes, how sure it is, and where it looks. Half a minute.

# %%
import regard

# %% [markdown]
# **Learn.** A language model says which word comes next. Its perplexity is the number of words that
# it hesitates between: 900 when it knows nothing, some 8 at best in this world.

# %%
run = regard.train(
    "gpt",
    d_model=64,
    d_ff=256,
    max_steps=200,
    batch_tokens=1024,
    lr=5e-3,
    warmup_steps=20,
    eval_every=100,
    save_every=200,
)

# %% [markdown]
# **Write.** Greedy always takes the likeliest word; sampling draws one.

# %%
print("greedy: ", "the animal" + run.generate("the animal"))
for seed in range(3):
    print("sampled:", "the animal" + run.generate("the animal", temperature=0.8, seed=seed))

# %% [markdown]
# **Judge.** The log-probability of whole sentences. The second has its words in a wrong order.

# %%
for text in ("john loves mary", "loves mary john"):
    print(f"{run.score(text):8.2f}  {text}")

# %% [markdown]
# **Look inside.** Row t is the position that has just read word t, and guesses the next. No row
# looks to its right: that is the causal mask.

# %%
look = run.explain("the animal did not cross the street because it")
look

# %% [markdown]
# What it thought might come after *it*, the most probable first:

# %%
after_it = look.source_tokens.index("it")
for choice in look.outcome.places[after_it].choices:
    print(f"{choice.probability:6.1%}  {choice.text}")

# %% [markdown]
# **One head, one word, six steps**: query, keys, scores, scaled, softmax, weighted values. These
# are the numbers of that very pass.

# %%
look.steps("it", layer=1, head=0)

# %% [markdown]
# **Any module can be watched.** The model computes as always; who watches gets what each attention
# was given.

# %%
with regard.watch(run.model) as views:
    run.score("the cat sleeps")
views

# %% [markdown]
# ## Change something
#
# 1. Take the positions away: `run.explain(text, edit={"kind": "no_positions"})`. What comes next?
# 2. Train with `n_layers=1`, or with `max_steps=600`. What is the perplexity?
# 3. Learn your own text: `regard.train("gpt", world=None, train="mine.txt")`.
