"""Split training as each role lives it."""
