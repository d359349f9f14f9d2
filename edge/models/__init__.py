"""Model files of others: which are known, where they come from, whether they are here, whole, and may be used."""
