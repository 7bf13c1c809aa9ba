"""Greedy, beam and sampling over a protocol that every generating model speaks."""
