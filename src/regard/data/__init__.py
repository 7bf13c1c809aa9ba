"""Built-in worlds, corpora and batches."""
