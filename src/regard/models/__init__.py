"""One file a family: ids in, logits out."""
