"""One file a claim: its docstring says it, its function puts it to the test."""
