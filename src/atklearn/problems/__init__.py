"""Problems stated on data: rows, objectives with their certificates, and solutions; arrays in, arrays out."""
