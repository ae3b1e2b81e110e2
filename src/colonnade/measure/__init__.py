"""Numbers: each a pure function on arrays, with its trivial baseline."""
