"""The mathematics of ``regard.functional``, fast: one call, a table of kernels, decoding steps."""
