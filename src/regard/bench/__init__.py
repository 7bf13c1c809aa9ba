"""How fast we are here, beside the peers that are installed: same work, in turn, in one run."""
