"""Modules of one idea each."""
