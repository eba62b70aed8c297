"""Recognize failure modes in which an epoch doesn't finish, and tell them apart."""

from __future__ import annotations

import builtins
import re
import signal
from typing import Final

from dltutor.diagnosis.evidence import Evidence
from dltutor.diagnosis.finding import Certainty, Finding
from dltutor.diagnosis.probes.two_ranks import PATIENCE
from dltutor.diagnosis.rules.culprits import fate, how_many, raising
from dltutor.diagnosis.words import count_of, duration


def corrupt_images(evidence: Evidence) -> Finding | None:
    """An image decoder fails, or a sample fails whose image is unreadable or has another mode."""
    culprit = raising(evidence)
    if culprit is None:
        found = evidence.culprit
        if found is None or found.stage or not found.decoder or evidence.run.end != "raised":
            return None
        said = f"{found.decoder} raised in a worker: {evidence.run.error}."
        return Finding(said, evidence.run.line)
    broken = culprit.decoder or (culprit.image and culprit.readable)
    if not (broken or (culprit.mode and culprit.stage == "sample")):
        return None
    said = f"In the main process, too, {culprit.which} raises {culprit.said}."
    if culprit.image:
        said += f" Pillow can't read {culprit.image}. It can read the images of other samples."
    elif not broken:
        said += f" Its image has mode {culprit.mode}. Opened in the mode of the others, it loads."
    said += how_many(evidence)
    fix = ""
    if not broken:
        fix = "Convert every image to the same mode when you load it: image.convert('RGB')."
    return Finding(said, culprit.at, fix)


def none_in_batch(evidence: Evidence) -> Finding | None:
    """Samples are None and can't be collated, or whole batches are None and the loop fails."""
    run, culprit, parts = evidence.run, evidence.culprit, evidence.parts
    if culprit is None or run.end != "raised":
        return None
    if culprit.stage == "collate" and culprit.blame == "none":
        said = (
            f"The loop ended with {run.error.rstrip('.')}. {culprit.told}, so {culprit.which} "
            "can't be made. Without None, it can."
        )
        fix = f"Find out why {parts.dataset} returns None, and set these samples aside before the "
        fix += "epoch. Or drop them in collate_fn, and count them."
        return Finding(said, parts.where, fix)
    if culprit.empty and "NoneType" in run.error and run.raised is None:
        said = (
            f"{culprit.empty} of {culprit.made} batches are None, because {parts.collate} had no "
            f"samples left. The loop ended with {run.error.rstrip('.')}."
        )
        fix = "Make your loop expect a batch that is None. Or, before the epoch, set aside the "
        fix += f"samples that are None in {parts.dataset}."
        if culprit.skipped:
            said += " Without these batches, it gets to its end."
        certainty: Certainty = "shown" if culprit.skipped else "likely"
        return Finding(said, run.line, fix, certainty=certainty)
    return None


def lost_exception_type(evidence: Evidence) -> Finding | None:
    """The exception that arrives in main isn't of the type that a worker raised."""
    run, culprit = evidence.run, evidence.culprit
    if run.end != "raised" or run.waited or not evidence.parts.workers:
        return None
    # If torch fails to rebuild a worker's exception and lets another one out, the message doesn't
    # name a worker, so `run.raised` is None. Take the type from the sample or batch that fails in
    # main instead.
    found = culprit if culprit is not None and culprit.stage in ("sample", "collate") else None
    changed = found is not None and found.arrives not in ("", found.kind)
    lost = run.raised or (found.kind if found is not None and changed else "")
    if not lost or lost == run.kind:
        return None
    said = f"A worker raised {lost}, but {run.kind} arrived in main."
    where = run.line
    if found is not None and found.kind == lost:
        said += f" In the main process, {found.which} raises {found.said}."
        where = found.at or where
    if evidence.alone is not None and evidence.alone.well:
        said += " Without workers, your loop catches it and goes on."
    said += how_many(evidence)
    fix = (
        f"Give {lost} an __init__ that takes a single string. Or catch it in the dataset, where it "
        "still has its type, and raise one that has such an __init__, or return the reason with "
        "the batch."
    )
    return Finding(said, where, fix)


def unpicklable_exception(evidence: Evidence) -> Finding | None:
    """Making a batch raises an exception whose class can't be pickled, so main waits in vain."""
    run, culprit = evidence.run, evidence.culprit
    if not run.waited or culprit is None or not evidence.parts.workers:
        return None
    if culprit.stage not in ("sample", "collate") or not culprit.unsent:
        return None
    said = (
        f"The loop got {run.batches} batches and waited in vain for the next one. In the main "
        f"process, {culprit.which} raises {culprit.said}, and pickling {culprit.kind} fails: "
        f"{culprit.unsent}.{how_many(evidence)}"
    )
    fix = (
        f"Define {culprit.kind} at the top level of a module, or catch it in the dataset and raise "
        "a class that can be pickled. Give the loader a timeout=."
    )
    return Finding(said, culprit.at, fix)


def unpicklable_batch(evidence: Evidence) -> Finding | None:
    """Main waits for a batch in vain, and the doctor or a worker's queue thread can't pickle it."""
    run, culprit, parts = evidence.run, evidence.culprit, evidence.parts
    if not run.waited or culprit is None or not parts.workers:
        return None
    where = parts.where
    if culprit.stage == "transport":
        said = (
            f"The loop got {run.batches} batches and waited in vain. In the main process, "
            f"{culprit.which} can be made but not pickled: {culprit.unsent}. The part that fails "
            f"is {culprit.part}."
        )
        fix = (
            f"Turn {culprit.part} into tensors, numbers, strings, lists, or dicts before the batch "
            "leaves the worker. Give the loader a timeout=."
        )
        return Finding(said, where, fix)
    if culprit.stage or "in _feed" not in run.stderr:
        return None
    last = run.stderr.strip().splitlines()[-1]
    if _is_os_error(last):
        return None
    return Finding(f"The loop waited in vain. The queue thread of a worker wrote: {last}.", where)


def _is_os_error(line: str) -> bool:
    # Return whether a traceback's last line names an OSError, which isn't about what a batch holds.
    kind = getattr(builtins, line.partition(":")[0], None)
    return isinstance(kind, type) and issubclass(kind, OSError)


def ragged_batch(evidence: Evidence) -> Finding | None:
    """Collating copies of one sample works, but collating two that differ in shape doesn't."""
    run, culprit, parts = evidence.run, raising(evidence, "collate"), evidence.parts
    if culprit is None or culprit.blame != "ragged":
        return None
    said = (
        f"The loop ended with {run.error.rstrip('.')}. {culprit.told}, so {culprit.which} can't be "
        "made from both. It can be made from copies of either one."
    )
    return Finding(said, parts.where)


def dead_worker(evidence: Evidence) -> Finding | None:
    """A worker died, or a sample or batch kills main. The finding names such a sample or batch."""
    run, samples, parts = evidence.run, evidence.samples, evidence.parts
    gone = evidence.run.dead
    kills = samples is not None and samples.ended == "died" and samples.at >= 0
    if run.end not in ("worker died", "main died") and not (gone and run.well):
        return None
    if samples is not None and kills:
        item = f"sample {samples.at} of the stream" if parts.stream else f"dataset[{samples.at}]"
        said = f"Even without workers, drawing {item} ends the process: {fate(samples.code)}."
        if gone:
            said += f" In the run, W{gone[0][0]} died with {fate(gone[0][1])}."
        fix = f"Look at what {parts.dataset} reads for index {samples.at}. Decode each sample once "
        fix += "in its own process, and set aside those that end it."
        return Finding(said, parts.where, fix)
    culprit = evidence.culprit
    if culprit is not None and culprit.stage == "died" and culprit.which:
        said = f"Even without workers, making {culprit.which} ends the process: "
        return Finding(f"{said}{fate(culprit.code)}.", parts.where)
    if not gone or run.end == "main died" or (run.well and parts.method == "forkserver"):
        return None
    if (culprit is not None and culprit.stage) or _says_why(evidence):
        return None
    number, code = gone[0]
    said = f"W{number} died with {fate(code)}. In the main process, no sample that was tried fails."
    seen = evidence.in_workers
    died = [each for each in seen.died if each[1] == code and each[2] >= 0] if seen else []
    if died:
        said += f" In another run, the last sample it began was dataset[{died[0][2]}]."
    elif seen is not None and seen.end == "finished":
        said += " In another run with forked workers, none died."
    # If the worker's last sample isn't known, or no signal killed the worker, the sample may not be
    # to blame, so the finding is only "likely". A SIGBUS may come from a full /dev/shm, and
    # under forkserver, the rule `lost_cause` says more.
    shown = died and code < 0 and code != -signal.SIGBUS and parts.method != "forkserver"
    return Finding(said, parts.where, certainty="shown" if shown else "likely")


def _says_why(evidence: Evidence) -> bool:
    # Return whether an exit or an exception ended the worker, or it crashed as it refilled memory
    # that torch was moving (see the rule `reused_buffer`). Each case says more than an exit code.
    if evidence.refilled and evidence.run.dead[0][1] == -signal.SIGSEGV:
        return True
    exits = evidence.in_workers is not None and any(
        kind == "SystemExit" for _, kind, _, _ in evidence.in_workers.failed
    )
    return exits or (evidence.run.dead[0][1] == 1 and "Traceback (most recent" in evidence.run.said)


def misleading_exit(evidence: Evidence) -> Finding | None:
    """A sample or batch raises SystemExit or KeyboardInterrupt, and the loop gets another error."""
    run, culprit = evidence.run, evidence.culprit
    if run.end not in ("worker died", "raised") or not evidence.parts.workers:
        return None
    if run.raised is not None:
        return None
    failed = evidence.in_workers.failed if evidence.in_workers is not None else ()
    exits = [each for each in failed if each[1] in _EXITS]
    if culprit is not None and culprit.stage in ("sample", "collate"):
        if culprit.kind not in _EXITS:
            return None
        which, said, where = culprit.which, culprit.said, culprit.at
    elif exits:
        index, kind, text, where = exits[0]
        which, said = f"In a worker, dataset[{index}]", f"{kind}: {text}" if text else kind
    else:
        return None
    evidenced = f"{which} raises {said}, which ends a worker without an error. The loop got "
    evidenced += f"{run.error or run.kind}.{how_many(evidence)}"
    fix = "Raise an ordinary exception there, with the sample's name in its message. If the code "
    fix += "isn't yours, catch SystemExit around it and raise one."
    return Finding(evidenced, where, fix)


_EXITS = ("SystemExit", "KeyboardInterrupt")  # torch's worker doesn't send these to main, but ends


def lost_cause(evidence: Evidence) -> Finding | None:
    """A worker died under forkserver, and neither the error nor stderr says what killed it."""
    run, samples = evidence.run, evidence.samples
    gone = evidence.run.dead
    if evidence.parts.method != "forkserver" or not gone or run.asked:
        return None
    number, code = gone[0]
    says_why = "killed by signal" in run.said or "exit code" in run.said
    if says_why or (code > 0 and run.said.strip() != run.error.strip()):
        return None  # the error or stderr says why the worker died
    if run.well:
        said = f"W{number} died with {fate(code)}, and the loop went on without an error."
    elif run.end == "worker died":
        said = f"The loop only got {run.error}, although W{number} died with {fate(code)}."
    else:
        return None
    if samples is not None and not samples.ended and not samples.failed:
        said += " In the main process, no sample that was tried fails."
    return Finding(said, run.line)


def unpicklable_handle(evidence: Evidence) -> Finding | None:
    """Main couldn't pickle a part of what it sends to a worker."""
    run, travel = evidence.run, evidence.travel
    if evidence.parts.method not in ("spawn", "forkserver") or travel is None:
        return None
    if run.end != "raised" or run.raised or run.batches or not travel.cannot:
        return None
    path, kind, error = travel.cannot[0]
    said = f"Pickling `{path}` ({kind}) for a worker raises {error}. "
    said += f"The loop ended with {run.error}, before the first batch"
    alone = evidence.alone
    if alone is not None and alone.well:
        said += f". Without workers, it delivered {alone.batches} batches"
    paths = ", ".join(f"`{each}`" for each, _, _ in travel.cannot)
    return Finding(f"{said}.", paths, _fix_for(path, kind, error))


def _fix_for(path: str, kind: str, error: str) -> str:
    # `kind` is the name of a class, "lambda", or "function NAME".
    if kind == "lambda" or kind.startswith("function"):
        return f"Replace `{path}` with a named function that a module defines."
    if "local object" in error:
        return f"Define `{kind}`, the class of `{path}`, at the top level of a module."
    return (
        f"Open `{path}` once in each process that uses it, and leave it out of the pickle "
        "(__getstate__)."
    )


def _died_starting(evidence: Evidence) -> bool:
    # Return whether a worker in a new interpreter died before the first batch.
    run = evidence.run
    new = evidence.parts.method in ("spawn", "forkserver")
    return new and run.end == "worker died" and not run.batches


_MISSING: Final = re.compile(r"Can't get attribute '([\w.]+)' on <module '([\w.]+)'")


def main_only_class(evidence: Evidence) -> Finding | None:
    """A worker in a new interpreter couldn't find a name that its pickle refers to."""
    travel, missing = evidence.travel, _MISSING.search(evidence.run.said)
    if missing is None or not _died_starting(evidence):
        return None
    name, module = missing.group(1), missing.group(2).replace("__mp_main__", "__main__")
    here = "a file that doesn't define it on import"
    if travel is not None and not travel.script and module == "__main__":
        here = "a `__main__` without a file"
    said = (
        f"Each worker is a new interpreter, and its `{module}` has no `{name}`. It raised "
        f"AttributeError while unpickling what main sent, and exited with code 1 before the first "
        f"batch. In main, the name comes from {here}."
    )
    fix = f"Put `{name}` into a file and import it from there."
    return Finding(said, f"`{module}.{name}`", fix)


_REFUSED: Final = "An attempt has been made to start a new process before"


_AGAIN: Final = "_fixup_main_from_path"  # multiprocessing's function that runs the script again


def missing_main_guard(evidence: Evidence) -> Finding | None:
    """A worker died while it was running the script again."""
    run, travel = evidence.run, evidence.travel
    if not _died_starting(evidence) or not (_REFUSED in run.said or _AGAIN in run.said):
        return None
    reason = (
        "got to the loop, and wasn't allowed to start workers of its own"
        if _REFUSED in run.said
        else "but didn't get to the end"
    )
    said = (
        f"Each worker ran the script again, {reason}. It exited with code 1 before the first batch"
    )
    alone = evidence.alone
    if alone is not None and alone.well:
        said += f". Without workers, the loop got {alone.batches} batches"
    where = "" if travel is None else travel.script.rpartition("/")[2]
    return Finding(f"{said}.", where)


def global_only_in_parent(evidence: Evidence) -> Finding | None:
    """Workers in new interpreters behave like main once they get main's globals."""
    run, alone, forked, given = evidence.run, evidence.alone, evidence.forked, evidence.imported
    if alone is None or forked is None or not forked.well:
        return None
    if alone.more_than(forked) or forked.more_than(alone):
        return None
    if given is None or given.end not in ("finished", "enough") or not given.batches:
        return None
    if given.unlike or not given.names:
        return None
    raised, method = run.end == "raised", evidence.parts.method
    what = f"raised {run.error}" if raised else "delivered different samples than main"
    names = ", ".join(f"`{each}`" for each in given.names[:3])
    said = (
        f"Workers started by {method} {what}. Forked workers didn't. In a new interpreter, {names} "
        "had a different value than in main, or none. With main's value, workers started by "
        f"{method} delivered what main does."
    )
    where = f"{names}, read in {run.line.partition(': ')[0]}" if raised and run.line else names
    fix = f"Pass {names} to the dataset as an attribute. Pass large arrays as tensors."
    return Finding(said, where, fix, ends=raised)


def generator_attribute(evidence: Evidence) -> Finding | None:
    """Workers died unpickling a tensor that was freed as soon as main had pickled it."""
    run, travel = evidence.run, evidence.travel
    if travel is None or not travel.gone or not _died_starting(evidence):
        return None
    if "Can't get attribute" in run.said or "bootstrapping phase" in run.said:
        return None  # `main_only_class` or `missing_main_guard` says more
    path, kind = travel.gone[0]
    said = (
        f"Workers ended with exit code 1 before the first batch. Pickling `{path}` ({kind}) for a "
        f"worker turns its state into a tensor, and that tensor is gone as soon as the pickle is "
        "written."
    )
    fix = (
        f"Keep the seed instead of `{path}`, and make a generator for each sample."
        if kind == "Generator"
        else f"Leave tensors that you make only for the pickle out of the state of `{path}`."
    )
    paths = ", ".join(f"`{each}`" for each, _ in travel.gone)
    return Finding(said, paths, fix)


def unloadable(evidence: Evidence) -> Finding | None:
    """Workers died unpickling something that main can pickle, but can't unpickle either."""
    alone, travel = evidence.alone, evidence.travel
    if travel is None or not travel.unreadable or not _died_starting(evidence):
        return None
    if main_only_class(evidence) or missing_main_guard(evidence):
        return None
    path, kind, error = travel.unreadable[0]
    said = (
        "Workers ended with exit code 1 before the first batch. In the main process, too, "
        f"`{path}` ({kind}) can be pickled, but unpickling it raises {error}."
    )
    if alone is not None and alone.well:
        said += f" Without workers, the loop got {alone.batches} batches."
    fix = ""
    if error.startswith("RecursionError"):
        fix = (
            f"Have `{kind}.__getattr__` raise AttributeError for each attribute that it uses "
            "itself, because none is there yet when the object is being unpickled."
        )
    elif "required positional argument" in error:
        fix = (
            f"Give `super().__init__` in `{kind}` the same arguments that `{kind}` takes, or keep "
            f"`str(error)` instead of the {kind}."
        )
    return Finding(said, f"`{path}`", fix)


_LIMIT: Final = "number of categories cannot exceed"


def too_many_weights(evidence: Evidence) -> Finding | None:
    """The sampler raises, even without workers, because torch can't draw from so many weights."""
    run, parts, culprit = evidence.run, evidence.parts, raising(evidence, "sampler")
    if culprit is None or _LIMIT not in culprit.said:
        return None
    said = (
        f"The loop ended with {run.error.rstrip('.')}. The sampler, {parts.sampler}, raises it "
        "without workers, too."
    )
    if parts.length:
        said += f" The dataset has {parts.length:,} samples."
    return Finding(said, run.line or parts.sampler)


REFUSED: Final = "daemonic processes are not allowed to have children"


def children_of_workers(evidence: Evidence) -> Finding | None:
    """A worker tried to start a process, which Python doesn't allow."""
    run, alone = evidence.run, evidence.alone
    if run.end != "raised" or not run.raised or REFUSED not in run.said:
        return None
    without = alone is not None and alone.well
    said = f"A worker raised {run.raised}: {REFUSED}."
    if without and alone is not None:
        said += f" Without workers, the same loader delivered {alone.batches} batches."
    return Finding(said, run.line, certainty="shown" if without else "likely")


def held_lock(evidence: Evidence) -> Finding | None:
    """A worker waits for a lock that no thread in it holds, until the doctor releases the lock."""
    return _lock_never_released(evidence, in_matplotlib=False)


def _lock_never_released(evidence: Evidence, *, in_matplotlib: bool) -> Finding | None:
    for waits in (evidence.waits, evidence.while_held):
        found = waits.freed("lock") if waits is not None else None
        if waits is None or found is None or ("/matplotlib/" in found[4]) != in_matplotlib:
            continue
        worker, line, _, path, _, _ = found
        inherited = path in waits.held
        if not inherited and (evidence.alone is None or not evidence.alone.well):
            continue  # a lock that one thread takes twice also stops main
        when = "was already held when main forked the workers" if inherited else "was held"
        said = f"W{worker} was stuck at {line}. `{path}` {when}, and no worker thread held it."
        if waits is evidence.while_held:
            said = (
                f"W{worker} got stuck at {line} when the doctor forked it while one of your "
                f"threads held `{path}`. When no thread held it, W{worker} ran."
            )
        said += f" When the doctor released the lock, W{worker} went on."
        fix = (
            ""
            if in_matplotlib
            else (
                f"In each worker, recreate `{path}` and what it guards (worker_init_fn, "
                "os.register_at_fork), start the workers while no thread holds it, or don't fork."
            )
        )
        return Finding(said, f"`{path}`, {line.partition(': ')[0]}", fix)
    return None


#: Matches the end of a path, starting at an attribute in which a pool keeps its threads.
_INSIDE: Final = re.compile(r"\._(pool|threads|worker_handler|task_handler|result_handler)\b.*$")


def lost_thread(evidence: Evidence) -> Finding | None:
    """A worker waits for one of main's threads until the doctor starts it or answers for it."""
    for waits in (evidence.waits, evidence.while_held):
        found = waits.freed("executor", "thread", "answer") if waits is not None else None
        if found is not None:
            worker, line, kind, path, _, _ = found
            path = _INSIDE.sub("", path)
            what = "executor" if kind == "executor" else "thread"
            missing = "its threads don't" if kind == "executor" else "that thread doesn't"
            once = "supplied an answer" if kind == "answer" else "started it there"
            said = (
                f"W{worker} was stuck at {line}. It waits for main's {what} `{path}`, but "
                f"{missing} exist in the worker, because a fork doesn't copy them. When the doctor "
                f"{once}, W{worker} went on."
            )
            fix = (
                f"Start `{path}` in each process that uses it (on first use, or in "
                "worker_init_fn), and leave it out of the pickle."
            )
            return Finding(said, f"`{path}`, {line.partition(': ')[0]}", fix)
    return None


def openmp_after_fork(evidence: Evidence) -> Finding | None:
    """Workers are stuck in an operation that threads share, but not with one thread per worker."""
    waits, alone = evidence.waits, evidence.one_thread
    if waits is None or waits.threads < 2 or alone is None or not alone.well:
        return None
    worker, line, *_ = waits.stuck[0]
    said = (
        f"W{worker} was stuck at {line}, in an operation that {waits.threads} OpenMP threads "
        f"share, and no Python lock was holding it up. With one thread for each worker, the same "
        f"loader delivered everything it was asked for ({alone.batches} batches)."
    )
    setter = f"`{evidence.parts.init}`" if evidence.parts.init else "the dataset"
    fix = (
        f"Leave each worker with the one thread that torch gives it. Look for set_num_threads (or "
        f"cv2.setNumThreads) in {setter} and in what it calls. If workers need threads, don't "
        "fork."
    )
    return Finding(said, line.partition(": ")[0], fix)


def plot_in_thread(evidence: Evidence) -> Finding | None:
    """A worker that draws a plot waits for matplotlib's lock, and goes on once the lock is free."""
    return _lock_never_released(evidence, in_matplotlib=True)


def short_timeout(evidence: Evidence) -> Finding | None:
    """The loader times out, but without a timeout, the batch arrives after a longer wait."""
    run, untimed = evidence.run, evidence.untimed
    if untimed is None or not evidence.only_slow:
        return None
    came = count_of(run.batches, "batch", "batches")
    return Finding(
        f"After {came}, the loop ended with {run.error.rstrip('.')}. With `timeout=0`, it got "
        f"{untimed.batches} and waited {duration(untimed.longest)} for the slowest.",
        f"timeout={run.timeout:g}",
    )


def uneven_ranks(evidence: Evidence) -> Finding | None:
    """One rank ends its epochs, and the other's loop, which has more batches, waits and fails."""
    ranks = evidence.two_ranks
    if ranks is None:
        return None
    for short, long in ((0, 1), (1, 0)) if ranks.batches else ():
        if not ranks.errors[long] or ranks.after[long] < 0.9 * PATIENCE:
            continue
        # On a slow machine, a call may fail before the other rank gets to it. Count a failure only
        # if the other rank has ended its epochs.
        fewer, more = sum(ranks.batches[short]), sum(ranks.batches[long])
        if more > fewer and all(ranks.finished[short]) and not all(ranks.finished[long]):
            return Finding(
                f"As rank {short} of 2, your loop got {fewer} batches until it ended. As rank "
                f"{long}, it got {more}, waited {duration(ranks.after[long])}, and raised "
                f"{ranks.errors[long].rstrip('.')}.",
                evidence.parts.where,
            )
    return None
