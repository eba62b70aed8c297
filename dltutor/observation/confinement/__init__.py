"""A loader or a script in a child interpreter under limits: what `confine` is made of.

From the caller's side to the child's: `confining` (confine itself), `targets`, `asked_limits`,
`supervisor`; in a process between the two, `supervisor_main`, `start_child`, `watchdog`; in the
child, `child_main`; afterwards `results` and `unobserved`. The limits themselves, a cgroup and a
mount, are made in `dltutor.system` and taken on in `start_child`.

Nothing is imported here: the supervisor runs without site-packages.
"""
