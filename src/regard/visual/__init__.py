"""Numbers and words in; SVG and HTML out. Nothing here knows a model, a run or a file."""
