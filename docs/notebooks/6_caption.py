# %% [markdown]
# # A picture captioned
#
# **What to expect.** You draw some hundred small pictures, a model learns to say what is on them
# (*Show, Attend and Tell*), and you see where it looks for each word. Half a minute.

# %%
import json
from pathlib import Path

import numpy as np
from IPython.display import HTML
from PIL import Image

import regard

# %% [markdown]
# **The pictures.** Two squares of different colours, one on the left and one on the right. The
# caption names both, left first.

# %%
COLOURS = {
    "red": (220, 50, 40),
    "blue": (40, 80, 220),
    "green": (40, 160, 60),
    "yellow": (230, 200, 40),
}
SIDE, SQUARE = 48, 12


def draw(rng: np.random.Generator) -> tuple[np.ndarray, str]:
    pixels = rng.integers(90, 120, (SIDE, SIDE, 3), dtype=np.uint8)
    left, right = rng.choice([*COLOURS], 2, replace=False)
    for name, start in ((left, 0), (right, SIDE // 2)):
        x = start + rng.integers(0, SIDE // 2 - SQUARE)
        y = rng.integers(0, SIDE - SQUARE)
        pixels[y : y + SQUARE, x : x + SQUARE] = COLOURS[name]
    return pixels, f"a {left} square left of a {right} square"


# %%
def write_pictures(folder: Path, split: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    with (folder / f"{split}.jsonl").open("w") as lines:
        for i in range(n):
            pixels, caption = draw(rng)
            Image.fromarray(pixels).save(folder / f"{split}{i}.png")
            lines.write(json.dumps({"image": f"{split}{i}.png", "caption": caption}) + "\n")


data = Path("pictures")
write_pictures(data, "train", 400, seed=1)
write_pictures(data, "valid", 40, seed=2)
Image.open(data / "valid0.png").resize((192, 192), Image.Resampling.NEAREST)

# %% [markdown]
# **The model.** A small convolutional network makes a grid of vectors of the picture. An LSTM
# writes word by word, and at each word attends to the grid.

# %%
recipe = {
    "task": "captioning",
    "data": {"folder": str(data), "train": "train.jsonl", "valid": "valid.jsonl", "image_size": 48},
    "text": {"kind": "word"},
    "model": {
        "preset": "show-attend-tell2015",
        "size": "tiny",
        "encoder": "stem",
        "positions": "sinusoidal",
        "query": "current",
        "dropout": 0.0,
    },
    "train": {
        "max_steps": 200,
        "batch_size": 16,
        "lr": 3e-3,
        "warmup_steps": 20,
        "schedule": "cosine",
        "label_smoothing": 0.0,
        "eval_every": 100,
    },
    "decode": {"max_len": 12},
}
run = regard.train(recipe, "runs/captions")

# %%
rng = np.random.default_rng(3)
for pixels, caption in [draw(rng) for _ in range(4)]:
    print(f"{run.caption(pixels):45} (right: {caption})")

# %% [markdown]
# **Where it looks.** A map for each word: light is where its attention lies. For a colour it should
# be on that square.

# %%
pixels, _ = draw(np.random.default_rng(7))
look = run.explain(pixels)
HTML(look.as_file("svg"))

# %% [markdown]
# The same in a view where you can choose words.

# %%
look

# %% [markdown]
# **Cover a part.** What does it say when it cannot see the left half? The picture is grey there.

# %%
hidden = pixels.copy()
hidden[:, : SIDE // 2] = 105
run.caption(hidden), run.caption(pixels)

# %% [markdown]
# ## Change something
#
# 1. Add a colour, or a second shape, to `draw`.
# 2. Let hard attention choose one place for each word: `model.normaliser = "hard"`.
# 3. Let a Transformer write: `preset="transformer-captioner"`, without `query`.
