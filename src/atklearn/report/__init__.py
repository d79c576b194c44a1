"""Results file in, page out: what is said, and the views that show it."""
