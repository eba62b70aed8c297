"""The former place of `dltutor.failures.tools.gauge`, for the doctor."""

from dltutor.failures.tools.gauge import Gauge as Gauge
from dltutor.failures.tools.gauge import as_for_spawned as as_for_spawned
