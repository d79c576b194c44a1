"""What users construct: validate, solve, publish."""
