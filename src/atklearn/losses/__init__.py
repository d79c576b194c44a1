"""What is added up, and how: losses of one sample, and aggregates of all."""
