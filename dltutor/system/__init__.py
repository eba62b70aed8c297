"""Read and control what Linux manages: processes, memory, cgroups, mounts, and the kernel log."""
