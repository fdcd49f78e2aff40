"""The worker side of the runtime in Python, with the standard library alone. Its parent is the engine."""
