"""Rows that lie elsewhere, in chunks: what is asked of a chunk, how answers add up, and the fits that ask."""
