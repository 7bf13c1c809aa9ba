"""A synchronous grammar of English and French: one abstract sentence, written in both."""
