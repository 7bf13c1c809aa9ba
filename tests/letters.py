"""A corpus that is easy to learn and easy to check: letters, reversed."""

import random

LETTERS = "abcdefgh"


def pairs(n, seed):
    """Reversed letters: easy to learn, easy to check."""
    rng = random.Random(seed)
    made = [[rng.choice(LETTERS) for _ in range(rng.randint(2, 5))] for _ in range(n)]
    return [(" ".join(letters), " ".join(reversed(letters))) for letters in made]


def write_pairs(folder, name, lines):
    source, target = folder / f"{name}.src", folder / f"{name}.tgt"
    source.write_text("".join(f"{a}\n" for a, _ in lines))
    target.write_text("".join(f"{b}\n" for _, b in lines))
    return [str(source), str(target)]
