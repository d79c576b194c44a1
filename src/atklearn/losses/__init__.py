"""What is added up, and how: losses of one sample, and aggregates of all."""

from atklearn.losses.compiling import prepare_cache

prepare_cache()  # every module with compiled code imports something from here first
