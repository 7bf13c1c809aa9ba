"""Runs that read or write texts: one file a kind."""
