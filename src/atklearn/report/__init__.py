"""What a results file says, as a page, as figures and in the terminal."""
