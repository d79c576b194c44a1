"""The kernel solver: LIBSVM's answer, made exact and certified."""
