"""The memory-network of Cheng et al. 2016 written out for one sentence: lists and loops only."""

import math

from oracles import inner


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def times(matrix, vector):
    return [inner(row, vector) for row in matrix]


def plus(*vectors):
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def softmax(scores):
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def mixed(weights, vectors, width):
    """The weighted sum; zeros where there is nothing to weigh."""
    return [sum(w * v[d] for w, v in zip(weights, vectors, strict=True)) for d in range(width)]


def paper_score(score, words):
    """a(x, last, h) = vᵀtanh(W_h h + W_x x + W_h̃ last), from a ``Score`` and the words' matrix."""
    w_h, w_last, v = score.w_key.T.tolist(), score.w_query.T.tolist(), score.v.tolist()
    columns = list(zip(*words.weight.tolist(), strict=True))
    w_x = [[inner(row, column) for column in columns] for row in w_last]  # W_h̃ W

    def scored(x, last, h, _position):
        sums = plus(times(w_h, h), times(w_x, x), times(w_last, last))
        return inner(v, [math.tanh(a) for a in sums])

    return scored


def read(words, cell, score, brought=None, weigh=softmax):
    """Words (T vectors) -> hidden tape, memory tape, and where each step looked."""
    from_word, bias = cell.words.weight.tolist(), cell.words.bias.tolist()
    from_tape = cell.recalled.weight.tolist()
    d = len(from_tape[0])
    hidden, memory, looked, last = [], [], [], [0.0] * d
    for t, x in enumerate(words):
        weights = weigh([score(x, last, h, i) for i, h in enumerate(hidden)])
        last, c = mixed(weights, hidden, d), mixed(weights, memory, d)
        sums = plus(times(from_word, x), bias, times(from_tape, last))
        new_c, new_h = [], []
        for j in range(d):
            i, f, o = (sigmoid(sums[j + part * d]) for part in range(3))
            more = brought[t][j] if brought else 0.0
            new_c.append(more + f * c[j] + i * math.tanh(sums[j + 3 * d]))
            new_h.append(o * math.tanh(new_c[j]))
        hidden.append(new_h)
        memory.append(new_c)
        looked.append(weights)
    return hidden, memory, looked


def find(words, hidden, memory, score):
    """Each word's γ̃ and α̃ from another's tapes, and where it looked."""
    d = len(hidden[0])
    found, contents, looked, last = [], [], [], [0.0] * d
    for x in words:
        weights = softmax([score(x, last, h, j) for j, h in enumerate(hidden)])
        last = mixed(weights, hidden, d)
        found.append(last)
        contents.append(mixed(weights, memory, d))
        looked.append(weights)
    return found, contents, looked
