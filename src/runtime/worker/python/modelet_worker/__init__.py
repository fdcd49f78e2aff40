"""The Python worker of the runtime. Uses only the standard library. Its parent process is the engine."""
