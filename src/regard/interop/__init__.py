"""Our weights in the formats of others: one table a format, with the names of both sides."""
