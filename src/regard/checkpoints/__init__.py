"""Run folders and what resuming needs, written whole or not at all."""
