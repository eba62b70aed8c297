"""Collect the names that notebook 03 (workers that die) imports."""

from dltutor.failures import dead_worker as dead_worker
from dltutor.failures import misleading_exit as misleading_exit
from dltutor.failures.data.scans import evenly as evenly
from dltutor.failures.data.scans import read_scan as read_scan
from dltutor.failures.data.scans import scan_paths as scan_paths
from dltutor.failures.data.scans import unpack as unpack
from dltutor.failures.dead_worker import decode as decode
from dltutor.failures.dead_worker import exit_code_alone as exit_code_alone
from dltutor.failures.dead_worker import film_paths as film_paths
from dltutor.lessons.engine.sources import show_source as show_source
from dltutor.lessons.lesson_03.helpers import breadcrumb_in as breadcrumb_in
from dltutor.lessons.lesson_03.helpers import confined as confined
from dltutor.lessons.lesson_03.helpers import deaths as deaths
from dltutor.lessons.lesson_03.helpers import log_of as log_of
from dltutor.lessons.lesson_03.helpers import new_folder as new_folder
from dltutor.lessons.lesson_03.helpers import side_by_side as side_by_side
from dltutor.lessons.lesson_03.helpers import stack_of as stack_of
