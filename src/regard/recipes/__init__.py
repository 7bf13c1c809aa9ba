"""Complete runs, by name or from a file."""
