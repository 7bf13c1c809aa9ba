"""Systems side by side: the same data, tokenizer and seeds, the same budget each."""
