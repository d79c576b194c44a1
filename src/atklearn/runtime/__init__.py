"""What everything runs on: compiled code and its cache, threads, where arrays live, how values look in messages."""
