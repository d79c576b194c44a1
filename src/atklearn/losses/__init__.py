"""What is added up, and how: losses of one sample, and aggregates of all."""

from atklearn.runtime.compiling import prepare_cache

prepare_cache()  # every module with compiled code imports something from here first
