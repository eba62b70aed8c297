"""Run a loader or a script, watch its processes, and record what happened."""

from dltutor.observation.confinement.confining import CannotConfine, confine
from dltutor.observation.memory.timeline import Timeline
from dltutor.observation.observing import observe
from dltutor.observation.record import Frame, Worker
from dltutor.observation.report import Observation
from dltutor.system.this_machine import Machine, machine

__all__ = [
    "CannotConfine",
    "Frame",
    "Machine",
    "Observation",
    "Timeline",
    "Worker",
    "confine",
    "machine",
    "observe",
]
