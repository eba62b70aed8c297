"""Collect the names that notebook 10 (leaking loaders) imports."""

from dltutor.display.figure import draw_growth as draw_growth
from dltutor.failures import growing_cache as growing_cache
from dltutor.failures import heap_growth as heap_growth
from dltutor.failures import kept_batches as kept_batches
from dltutor.failures import reference_cycle as reference_cycle
from dltutor.failures.growing_cache import Recordings as Recordings
from dltutor.lessons.engine.sources import show_source as show_source
from dltutor.lessons.lesson_10.helpers import Collecting as Collecting
from dltutor.lessons.lesson_10.helpers import freeze as freeze
from dltutor.lessons.lesson_10.helpers import make_jobs as make_jobs
from dltutor.lessons.lesson_10.helpers import observe_memory as observe_memory
from dltutor.lessons.lesson_10.helpers import what_grew as what_grew
from dltutor.lessons.lesson_10.helpers import what_stopped as what_stopped
from dltutor.lessons.lesson_10.transfer import make_model as make_model
from dltutor.lessons.lesson_10.transfer import scans_loader as scans_loader
