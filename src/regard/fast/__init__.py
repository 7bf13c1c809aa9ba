"""Models rewritten for decoding: joined weights, static caches, CUDA graphs."""
