"""Where rows are kept: arrays with compiled passes, and tensors. Each answers as the plain store of the core does."""
