"""Requests → calls, and the page."""
