"""What each head of a run does, and what it is worth."""
