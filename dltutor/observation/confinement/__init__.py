"""Run a loader or a script in a child interpreter under limits: the parts of `confine`.

The caller's process runs `confining` (`confine` itself), `asked` (which reads the arguments),
`supervisor`, and afterward `results`. A process between the caller and the child runs
`supervisor_main`, `start_child`, and `watchdog`. The child runs `child`. `calling` passes the call
from the caller to the child, and the answer back. `task` defines the Task that goes to the
supervisor, and the Report that comes back. `dltutor.system` makes the cgroup and the mount, and
`start_child` enters them.

Don't import anything here, because the supervisor runs without site-packages.
"""
