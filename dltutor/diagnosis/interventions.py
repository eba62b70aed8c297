"""Define the experiments that run the loader as it is, or with something changed."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from dltutor.diagnosis.difference import (
    EXACT,
    close,
    comparable_results,
    meant_to_repeat,
    repeats_without_workers,
    results_differ,
    resumes_elsewhere,
    with_workers,
)
from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.experiment import Experiment, Needed
from dltutor.diagnosis.measures import Measures
from dltutor.diagnosis.probes.waits import SHORT
from dltutor.diagnosis.running import runner
from dltutor.diagnosis.running.changed_batches import with_tensors
from dltutor.diagnosis.running.one_thread import keep_to_one_thread
from dltutor.diagnosis.running.random_states import SEED
from dltutor.diagnosis.running.subject import Mark, Subject, Unanswered
from dltutor.system.heap import fill_holes

# The fewest extra seconds in an epoch that matter, if workers compute for longer than their samples
# take. Forking two workers takes a tenth of this.
_MORE: Final = 0.4
_LONGEST: Final = 11.0  # the most seconds for a run without workers
_TIMES: Final = 16  # `more_files` multiplies the limit on descriptors by this, if allowed


def _differs(evidence: Evidence) -> bool:
    # Return whether something differs with and without workers: a finished epoch's samples, the
    # loop's result, or the length of an iteration after one that the loop left. If so, the doctor
    # tries another seed, because random samples may differ, but samples that no seed changes
    # shouldn't.
    found, alone = with_workers(evidence), evidence.alone
    if found is not None and found.any and found.whole:
        return True
    return _resumes(evidence) or (alone is not None and results_differ(evidence.run, alone))


def _resumes(evidence: Evidence) -> bool:
    # Return whether the loop leaves an iteration, and the next one has another length with workers.
    # If a run with workers in new interpreters ran out of time, return whether that's possible.
    run, alone, parts = evidence.run, evidence.alone, evidence.parts
    if alone is None or alone.end != "finished" or not parts.loop:
        return False
    cut = run.end == "enough" and parts.method in ("spawn", "forkserver")
    return resumes_elsewhere(run, alone) > 0 or (cut and not all(alone.finished[:-1]))


def _fork_if_it_resumes(subject: Subject) -> None:
    # Fork the workers, because that's the fastest way to start them. The sampler is in main, so the
    # start method makes no difference to where the loop goes on.
    if subject.known is not None and _resumes(subject.known):
        subject.change(method="fork")


def _depends_on_seed(evidence: Evidence) -> bool:
    # Return whether the loop's result differs with and without workers, and from seed to seed,
    # though no sample is random. For example, your loop may train a model with random weights.
    run, alone, reseeded = evidence.run, evidence.alone, evidence.reseeded
    samples = evidence.samples
    if alone is None or reseeded is None or samples is None or not evidence.parts.loop:
        return False
    if samples.random or samples.again or samples.joined or not results_differ(run, alone):
        return False
    if not results_differ(alone, reseeded):
        return False  # the result doesn't depend on the seed; it may be an amount of memory
    return all(each.end == "finished" for each in (run, alone, reseeded))


def _same_result_again(evidence: Evidence) -> bool:
    # Return whether the loop's result is the same in two runs without workers. If `repeated` ran,
    # both runs have the same seed. If not, their seeds differ, and the result must also differ with
    # workers. A result that isn't the same may be a time or an amount of memory.
    alone, reseeded, repeated = evidence.alone, evidence.reseeded, evidence.repeated
    if alone is None or reseeded is None or not evidence.parts.loop:
        return False
    if repeated is not None:
        return repeated.end == "finished" and close(reseeded.numbers, repeated.numbers, EXACT)
    return results_differ(evidence.run, alone) and close(alone.numbers, reseeded.numbers, EXACT)


def _result_may_differ(evidence: Evidence) -> bool:
    pair = comparable_results(evidence)
    return pair is not None and results_differ(*pair)


def _may_change_batches(evidence: Evidence) -> bool:
    # Return whether your loop may change batches in place, and so affect later batches.
    samples = evidence.samples
    if not evidence.parts.loop or samples is None or samples.random or samples.joined:
        return False
    found = with_workers(evidence)
    return evidence.run.well and found is not None and found.any


def _order_may_count(evidence: Evidence) -> bool:
    # Return whether the loop's result is the same with another seed, but differs if batches arrive
    # as soon as they're ready.
    run, alone, reseeded = evidence.run, evidence.alone, evidence.reseeded
    if evidence.parts.in_order or alone is None or reseeded is None:
        return False
    return results_differ(run, alone) and close(alone.numbers, reseeded.numbers, EXACT)


def _resumed(evidence: Evidence) -> bool:
    # Return whether an iteration went on after another had restarted the iterator that both use.
    run = evidence.run
    return run.well and evidence.parts.persistent and run.resumed > 0


def _works_again(evidence: Evidence) -> bool:
    # Return whether new workers compute much more in each epoch than their samples take in main.
    run, parts, samples = evidence.run, evidence.parts, evidence.samples
    if samples is None or parts.stream or parts.persistent or parts.method != "fork":
        return False  # workers of another method import torch again in each epoch
    more = run.computed - samples.typical * run.total
    return sum(run.finished) > 1 and more > max(run.computed / 2, _MORE * len(run.counted))


def _only_in_new_workers(evidence: Evidence) -> bool:
    # Return whether the loader works in main, but workers in new interpreters raise an exception or
    # deliver different samples, or a different number of them.
    if evidence.parts.method not in ("spawn", "forkserver"):
        return False
    run, alone, samples = evidence.run, evidence.alone, evidence.samples
    if alone is None or not alone.well or samples is None or samples.ended or samples.failed:
        return False
    if run.end == "raised":
        return run.raised is not None
    if evidence.parts.stream and (run.lacks(alone) or run.lengths != alone.lengths):
        return True
    return run.well and not samples.random and not samples.again and alone.lacks(run) > 0


def _stuck_for_no_reason(evidence: Evidence) -> bool:
    # Return whether forked workers were seen stuck, a longer wait doesn't help, and nothing that
    # the doctor tried freed one.
    stuck = evidence.waits.stuck if evidence.waits is not None else ()
    return bool(stuck) and not evidence.only_slow and not _freed(evidence)


def _timed_out(evidence: Evidence) -> bool:
    # Return whether the loader reached its timeout, and nothing that the doctor tried freed one of
    # the workers that were seen stuck.
    return evidence.run.timeout > 0 and not _freed(evidence)


def _freed(evidence: Evidence) -> bool:
    waits = evidence.waits
    return waits is not None and any(freed for *_, freed in waits.stuck)


def _shm_ran_out(evidence: Evidence) -> bool:
    run = evidence.run
    return evidence.parts.workers > 0 and not run.well and "shm_exhausted" in run.named


def _files_run_out(evidence: Evidence) -> bool:
    # Return whether a process ran out of file descriptors or, if the run went well, whether main
    # kept batches and would use more than 90 percent of its limit by the end of the epoch.
    run, parts = evidence.run, evidence.parts
    if not parts.workers or "shm_exhausted" in run.named:
        return False
    if run.well:
        return run.kept >= 8 and evidence.files_by_the_end > 0.9 * parts.files
    return "too_many_open_files" in run.named


def _called_for_each_epoch(evidence: Evidence) -> bool:
    # Return whether the loop iterates the loader only once, so your program may call the loop for
    # each epoch, and whether the loop is quick enough for the doctor to call it three times.
    run = evidence.run
    if not evidence.parts.loop or run.end != "finished" or len(run.finished) != 1:
        return False
    return run.pace * run.batches < _BRIEF


def _leaves_its_epoch(evidence: Evidence) -> bool:
    # Look only at the first call, because the second one may reach the epoch's end. A sampler
    # that's ahead of the loop leaves less of the epoch for it.
    again = evidence.called_again
    return again is not None and len(again.finished) > 1 and not again.finished[0]


_BRIEF: Final = 3.0  # seconds; if an epoch takes less, the doctor has time for three
_CALLS: Final[dict[str, Any]] = {"longest": 6.0, "epochs": 3, "seed": SEED}


def _whole_epochs(subject: Subject) -> float:
    # Give the run without workers time for a whole epoch if one finished with workers, because a
    # whole epoch says more than its start.
    run = subject.known.run if subject.known is not None else None
    expected = 0.0
    if run is not None and any(run.finished):
        expected = 1.5 * subject.inner.num_workers * run.pace * run.batches + 1.0
    return max(min(4.0, subject.seconds / 2), min(expected, _LONGEST))


def _more_files(subject: Subject) -> None:
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for soft, most in ((_TIMES * files, max(_TIMES * files, hard)), (hard, hard)):
        if soft > files:
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))
                return
    raise Unanswered("the limit can't be raised here")


def _run(
    field: str,
    question: str,
    at_most: float,
    needed: Needed,
    settings: dict[str, Any],
    *,
    longest: float | Callable[[Subject], float] | None = None,
    all_epochs: bool = False,
    prepare: Callable[[Subject], object] = lambda subject: None,
    cut_short: bool = False,
    **fixed: Any,
) -> Experiment:
    """Return the Experiment that runs the loader as it is, or with something changed.

    Args:
        field: The field of Evidence that the run fills.
        question: The question that the run answers.
        at_most: The most seconds that the experiment may take if its workers are forked.
        needed: A function that takes the evidence so far, and returns whether to ask the question.
        settings: Arguments for `Subject.change`. If empty, the loader's settings stay as they are.
        longest: The most seconds of the run (at most half of the experiment's), or a function that
            takes the subject and returns them. If None, `fixed` may have `seconds`.
        all_epochs: Whether to run `Subject.epochs_to_run` epochs. If not, `fixed` may have
            `epochs`.
        prepare: A function that takes the subject before the run, and makes other changes.
        cut_short: Whether a process that dies, or that can't be interrupted, counts as an answer.
        fixed: Arguments for `runner.run` that are the same for every loader.
    """

    def ask(subject: Subject) -> Measures:
        given = dict(fixed)
        if callable(longest):
            given["seconds"] = longest(subject)
        elif longest is not None:
            given["seconds"] = min(longest, subject.seconds / 2)
        if all_epochs:
            given["epochs"] = subject.epochs_to_run
        if settings:
            subject.change(**settings)
        prepare(subject)
        return runner.run(subject, **given)

    cut = _cut_short if cut_short else None
    return Experiment(field, question, Measures, at_most, needed, ask, cut)


def _cut_short(stopped: str, code: int | None, mark: Mark) -> Measures:
    if stopped:
        return Measures("hung", f"main couldn't be interrupted ({stopped})")
    return Measures("main died", f"main ended with exit code {code}")


#: Arguments for runs of one epoch with a fixed seed, so that their results can be compared.
_ONE_SEED: Final[dict[str, Any]] = {"longest": 4.0, "epochs": 1, "seed": SEED}

INTERVENTIONS: Final = (
    _run(
        "run",
        "How does the loader run as it is?",
        16.0,
        lambda evidence: True,
        {},
        longest=8.0,
        all_epochs=True,
        # If main's heap had holes, workers would fill them before they take new memory, and that
        # would hide a part of their growth.
        prepare=lambda subject: fill_holes(),
        cut_short=True,
    ),
    _run(
        "alone",
        "How does the loader run without workers?",
        18.0,
        lambda evidence: evidence.parts.workers > 0,
        {"num_workers": 0},
        longest=_whole_epochs,
        all_epochs=True,
        cut_short=True,
        patience=4.0,
    ),
    _run(
        "reseeded",
        "How does the loader run without workers and with another seed?",
        10.0,
        _differs,
        {"num_workers": 0},
        patience=4.0,
        **_ONE_SEED,
    ),
    _run(
        "repeated",
        "Is the outcome the same again without workers and with the same seed?",
        10.0,
        lambda evidence: (
            _depends_on_seed(evidence) or evidence.seeded_once or meant_to_repeat(evidence)
        ),
        {"num_workers": 0},
        patience=4.0,
        **_ONE_SEED,
    ),
    _run(
        "seeded",
        "What arrives with workers and the same seed?",
        10.0,
        lambda evidence: (
            _resumes(evidence) or _same_result_again(evidence) or repeats_without_workers(evidence)
        ),
        {},
        prepare=_fork_if_it_resumes,
        **_ONE_SEED,
    ),
    _run(
        "seeded_again",
        "Does the same arrive again with workers and the same seed?",
        10.0,
        lambda evidence: repeats_without_workers(evidence) or _result_may_differ(evidence),
        {},
        **_ONE_SEED,
    ),
    _run(
        "called_again",
        "What arrives if the loop is called three times?",
        14.0,
        _called_for_each_epoch,
        {},
        **_CALLS,
    ),
    _run(
        "called_alone",
        "What arrives without workers if the loop is called five times?",
        14.0,
        _leaves_its_epoch,
        {"num_workers": 0},
        patience=4.0,
        # Workers may load more ahead than a call takes, so look further.
        **_CALLS | {"epochs": 5},
    ),
    _run(
        "copied",
        "Do the same samples arrive if the loop gets a copy of each batch?",
        14.0,
        _may_change_batches,
        {},
        longest=6.0,
        all_epochs=True,
        copies=True,
    ),
    _run(
        "in_turn",
        "What does the loop return with `in_order=True`?",
        8.0,
        _order_may_count,
        {"in_order": True},
        **_ONE_SEED,
    ),
    _run(
        "not_kept",
        "How does the loop run with `persistent_workers=False`?",
        14.0,
        _resumed,
        {"persistent_workers": False},
        longest=6.0,
    ),
    _run(
        "stayed",
        "How much do the workers compute with `persistent_workers=True`?",
        16.0,
        _works_again,
        {"persistent_workers": True},
        longest=8.0,
        all_epochs=True,
    ),
    _run(
        "untimed",
        "Does the loader get through with `timeout=0`?",
        10.0,
        _timed_out,
        {"timeout": 0},
        seconds=1.5,
        content=False,
        epochs=1,
    ),
    _run(
        "one_thread",
        "Do stuck workers go on with one OpenMP thread for each?",
        8.0,
        _stuck_for_no_reason,
        {"timeout": 0},
        prepare=lambda subject: subject.in_workers(keep_to_one_thread),
        **SHORT,
    ),
    _run(
        "forked",
        "Does the loader run with forked workers?",
        8.0,
        _only_in_new_workers,
        {"method": "fork"},
        seconds=2.0,
        patience=3.0,
        epochs=1,
        own_loop=True,
    ),
    _run(
        "lighter",
        "Does the run get through with one worker that loads one batch ahead?",
        8.0,
        _shm_ran_out,
        {"num_workers": 1, "prefetch_factor": 1, "method": "fork"},
        own_loop=True,
        **SHORT,
    ),
    _run(
        "arrays",
        "Does the run get through if workers send arrays instead of tensors?",
        8.0,
        _shm_ran_out,
        {},
        prepare=lambda subject: with_tensors(subject, lambda each: each.detach().cpu().numpy()),
        own_loop=True,
        **SHORT,
    ),
    _run(
        "nothing_kept",
        "Does the run get through if the loop keeps no batch?",
        8.0,
        _files_run_out,
        {},
        own_loop=True,
        **SHORT,
    ),
    _run(
        "more_files",
        "Does the run get through if a process may open more files?",
        8.0,
        _files_run_out,
        {},
        prepare=_more_files,
        **SHORT,
    ),
)
