"""Read and control processes, memory, cgroups, and mounts, and read the kernel log."""
