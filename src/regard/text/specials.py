"""The tokens that are no text. Their ids are the same in every tokenizer we train."""

PAD, BEGIN, END, UNKNOWN = "<pad>", "<s>", "</s>", "<unk>"
SPECIALS = (PAD, BEGIN, END, UNKNOWN)
PAD_ID, BEGIN_ID, END_ID, UNKNOWN_ID = range(4)
MASK = "<mask>"
"""Stands for a word that is to be guessed; only tokenizers of encoders have it, as the next id."""
MASK_ID = len(SPECIALS)
