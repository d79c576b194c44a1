"""A user's tables: read as they are, with their columns in their roles, and features made of them."""
