"""The exercises, one file each: statement, solution, hints, examples, laws and mistakes."""
