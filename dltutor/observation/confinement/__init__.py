"""A loader or a script in a child interpreter under limits: what `confine` is made of.

On the caller's side: `confining` (confine itself), `asked` (what it was asked for), `supervisor`,
and afterwards `results`. In a process between the two: `supervisor_main`, `start_child`,
`watchdog`. In the child: `calling`, `child`. The limits themselves, a cgroup and a mount, are made
in `dltutor.system`, and `start_child` takes them on.

Nothing is imported here: the supervisor runs without site-packages.
"""
