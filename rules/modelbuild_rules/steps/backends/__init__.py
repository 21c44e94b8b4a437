"""One module a backend: how it partitions a program, and how it compiles a partition."""
