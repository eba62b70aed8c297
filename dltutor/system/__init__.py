"""What the operating system reports: processes and their memory, cgroups, mounts, its log."""
