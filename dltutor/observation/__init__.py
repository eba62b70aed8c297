"""What happened: run a loader, watch its processes, write it down."""

from dltutor.observation.confinement.confine import CannotConfine, confine
from dltutor.observation.machine import Machine, machine
from dltutor.observation.observe import observe
from dltutor.observation.record import Frame, Observation, Worker

__all__ = [
    "CannotConfine",
    "Frame",
    "Machine",
    "Observation",
    "Worker",
    "confine",
    "machine",
    "observe",
]
