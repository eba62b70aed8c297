"""What the operating system knows: processes and their memory, cgroups, mounts, signals."""
