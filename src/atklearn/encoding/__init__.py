"""From what users pass to problems and back: X, y and weights are checked and encoded once."""
