"""Other people's Transformers, each in our words: ``forward(source, target) -> logits``.

All have one matrix for both embeddings and the output, and as many layers, heads and widths as
asked for. Where a library has choices, those that its documentation calls fastest are taken.
"""
