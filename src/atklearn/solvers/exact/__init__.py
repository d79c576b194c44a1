"""The exact linear solver: proximal Newton steps on rows, paths over k and C, the collapse to zero."""
