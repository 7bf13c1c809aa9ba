"""What is seen inside a run: one look, and what it is made of."""
