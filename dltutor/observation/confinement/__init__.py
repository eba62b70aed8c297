"""A loader or a script in a child interpreter under limits: what `confine` is made of.

From the caller's side to the child's: `confining` (confine itself), `targets`, `limits`,
`supervisor`; in a process between the two, `supervisor_main`, `child`, `watchdog`; in the child,
`child_main`; afterwards `results` and `from_outside`. The cgroup and the mount themselves are
made in `dltutor.system`.

Nothing is imported here: the supervisor runs without site-packages.
"""
