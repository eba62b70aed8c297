"""List logs as people paste them, with the failure mode that `explain` must name first.

`explain` must not name any failure mode for the logs in ORDINARY. The logs are from public threads
and from source code, not from messages.toml. Some are cut off, have prefixes, are inside
tracebacks, or come from old versions.
"""

from __future__ import annotations

_WORKER = """\
Traceback (most recent call last):
  File "train.py", line 88, in <module>
    for step, batch in enumerate(loader):
  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 630, in __next__
    data = self._next_data()
  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/dataloader.py", line 1371, in _process_data
    data.reraise()
  File "/opt/conda/lib/python3.10/site-packages/torch/_utils.py", line 694, in reraise
    raise exception
{type}: Caught {type} in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/_utils/worker.py", line 308, in _worker_loop
    data = fetcher.fetch(index)  # type: ignore[possibly-undefined]
  File "/opt/conda/lib/python3.10/site-packages/torch/utils/data/_utils/fetch.py", line 51, in fetch
    data = [self.dataset[idx] for idx in possibly_batched_index]
  File "/workspace/data.py", line 57, in __getitem__
    {line}
{type}: {message}
"""

_FEED = """\
Traceback (most recent call last):
  File "/usr/lib/python3.10/multiprocessing/queues.py", line 244, in _feed
    obj = _ForkingPickler.dumps(obj)
  File "/usr/lib/python3.10/multiprocessing/reduction.py", line 51, in dumps
    cls(buf, protocol).dump(obj)
{}
"""

_START = """\
  File "C:\\Users\\me\\anaconda3\\lib\\site-packages\\torch\\utils\\data\\dataloader.py", line 1043, in __init__
    w.start()
  File "C:\\Users\\me\\anaconda3\\lib\\multiprocessing\\popen_spawn_win32.py", line 93, in __init__
    reduction.dump(process_obj, to_child)
  File "C:\\Users\\me\\anaconda3\\lib\\multiprocessing\\reduction.py", line 60, in dump
    ForkingPickler(file, protocol).dump(obj)
{}
"""


def _worker(kind: str, message: str, line: str = "x = self.read(i)") -> str:
    return _WORKER.format(type=kind, message=message, line=line)


# The logs, by the failure mode that `explain` must name first.
UNSEEN: dict[str, list[str]] = {
    "corrupt_images": [
        _worker("PIL.UnidentifiedImageError", "cannot identify image file <_io.BufferedReader>"),
        "IOError: image file is truncated (3 bytes not processed)",
        _worker("OSError", "unrecognized data stream contents when reading image file"),
        _worker("SyntaxError", "broken PNG file (chunk b'\\x00\\x00')"),
        _worker(
            "cv2.error",
            "OpenCV(4.8.1) /io/opencv/modules/imgproc/src/color.cpp:182: error: (-215:Assertion "
            "failed) !_src.empty() in function 'cvtColor'",
            "image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)",
        ),
        (
            "[ WARN:0@12.3] global loadsave.cpp:248 findDecoder imread_('/data/a b/0001.jpg'): can't "
            "open/read file: check file path/integrity"
        ),
        "Corrupt JPEG data: premature end of data segment\nEpoch 3",
        "PIL.Image.DecompressionBombError: Image size (400000000 pixels) exceeds",
        (
            "soundfile.LibsndfileError: Error opening '/data/clips/x.wav': File contains data in an "
            "unknown format."
        ),
        (
            "av.error.InvalidDataError: [Errno 1094995529] Invalid data found when processing input: "
            "'/data/v.mp4'"
        ),
    ],
    "none_in_batch": [
        "TypeError: batch must contain tensors, numbers, dicts or lists; found <class 'NoneType'>",
        _worker("IndexError", "list index out of range", "").replace(
            '/workspace/data.py", line 57, in __getitem__\n    ',
            'collate.py", line 141, in default_collate\n    elem = batch[0]',
        ),
        (
            'File "data.py", line 9, in collate_fn\n    images = torch.stack(images)\n'
            "RuntimeError: stack expects a non-empty TensorList"
        ),
    ],
    "lost_exception_type": [
        (
            "RuntimeError: Caught HTTPError in DataLoader worker process 5.\nOriginal Traceback (most "
            'recent call last):\n  File "data.py", line 3, in __getitem__\n'
            "urllib.error.HTTPError: HTTP Error 503: Service Unavailable"
        ),
        (
            '  File "torch/utils/data/dataloader.py", line 582, in _process_next_batch\n'
            "    raise batch.exc_type(batch.exc_msg)\n"
            "TypeError: __init__() missing 2 required positional arguments: 'cmd' and 'code'"
        ),
        '  File "torch/_utils.py", line 784, in reraise\n    raise self.exc_type(\nTypeError: Described() takes no keyword arguments',
        "TypeError: ParseError() takes no keyword arguments",
        "TypeError: BaseExceptionGroup.__new__() takes exactly 2 arguments (0 given)",
        "TypeError: JSONDecodeError.__init__() missing 2 required positional arguments: 'doc' and 'pos'",
    ],
    "unpicklable_batch": [
        _FEED.format("TypeError: cannot pickle 'dict_keys' object"),
        _FEED.format("TypeError: can't pickle generator objects"),
        _FEED.format(
            '  File "PIL/Image.py", line 751, in __getstate__\n    return [self.info, self.mode]\n'
            "ValueError: seek of closed file"
        ),
    ],
    "unpicklable_exception": [
        _FEED.format("AttributeError: Can't pickle local object 'load.<locals>.DecodeError'"),
        _FEED.format(
            "_pickle.PicklingError: Can't pickle <class 'safetensors_rust.SafetensorError'>: import "
            "of module 'safetensors_rust' failed"
        ),
    ],
    "ragged_batch": [
        "E           RuntimeError: stack expects each tensor to be equal size, but got [3, 224",
        (
            "RuntimeError: invalid argument 0: Sizes of tensors must match except in dimension 0. Got "
            "333 and 500 in dimension 2 at /pytorch/aten/src/TH/generic/THTensorMoreMath.cpp:1307"
        ),
        (
            "ValueError: Unable to create tensor, you should probably activate truncation and/or "
            "padding with 'padding=True' 'truncation=True' to have batched tensors with the same length"
        ),
        (
            'data = np.stack(items)  # in collate\nFile "x.py", line 3, in my_collate\n'
            "ValueError: all input arrays must have the same shape"
        ),
    ],
    "silent_stop": [
        "StopIteration: Caught StopIteration in DataLoader worker process 1.",
    ],
    "dead_worker": [
        "[rank2]: RuntimeError: DataLoader worker (pid 3979007) is killed by signal: Killed. ",
        "RuntimeError: DataLoader worker (pid 12) is killed by signal: Terminated.",
        "RuntimeError: DataLoader worker (pid 4242) is killed by sig",
        (
            "RuntimeError: DataLoader worker (pid 58353) exited unexpectedly with exit code 1. Details "
            "are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
        ),
        "[2612362.2] python invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null)",
        (
            "Oct  2 kernel: Memory cgroup out of memory: Killed process 991 (pt_data_worker) "
            "total-vm:9000kB, anon-rss:8000kB"
        ),
        "Out of memory: Kill process 4711 (python3) score 901 or sacrifice child",
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=9411285.batch cgroup. Some of",
        "srun: error: gpu20-15: task 0: Out Of Memory",
        "    Last State:  Terminated\n      Reason:  OOMKilled\n      Exit Code:  137",
        "ERROR: Job failed: command terminated with exit code 137",
        "Process finished with exit code 137 (interrupted by signal 9: SIGKILL)",
        "torch.distributed.elastic.multiprocessing.api: failed (exitcode: -9) local_rank: 0 (pid: 7)",
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        "pt_data_worker[8123]: segfault at 0 ip 00007f33 sp 00007ffd error 4 in libavcodec.so",
        (
            "OSError: [WinError 1455] The paging file is too small for this operation to complete. "
            'Error loading "C:\\torch\\lib\\caffe2_detectron_ops.dll"'
        ),
        "zsh: killed     python main.py --workers 8",
        "make: *** [Makefile:12: train] Error 137",
        "The replica workerpool0-0 ran out-of-memory and exited with a non-zero status of 137(SIGKILL).",
        "OSError: [WinError 1455] \u9875\u9762\u6587\u4ef6\u592a\u5c0f",
    ],
    "misleading_exit": [
        (
            '  File "torch/multiprocessing/reductions.py", line 294, in rebuild_storage_fd\n'
            '  File "multiprocessing/resource_sharer.py", line 57, in detach\n'
            '  File "multiprocessing/connection.py", line 383, in _recv\n    raise EOFError\nEOFError'
        ),
        (
            "Exception in thread Thread-4 (_pin_memory_loop):\n  r = in_queue.get(timeout=5.0)\n"
            "  in rebuild_storage_fd\nConnectionRefusedError: [Errno 111] Connection refused\n"
            "RuntimeError: Pin memory thread exited unexpectedly"
        ),
        (
            '  File "multiprocessing/connection.py", line 508, in Client\n'
            "    answer_challenge(c, authkey)\n"
            '  File "multiprocessing/connection.py", line 752, in answer_challenge\nEOFError'
        ),
    ],
    "leftover_iterator": [
        (
            "Exception ignored in: <bound method _DataLoaderIter.__del__ of <torch.utils.data.dataloader"
            "._DataLoaderIter object at 0x7f>>\nAssertionError: can only join a child process"
        ),
    ],
    "lost_cause": [
        (
            "_queue.Empty\n\nThe above exception was the direct cause of the following exception:\n\n"
            'Traceback (most recent call last):\n  File "a.py", line 4, in <module>\n'
            "RuntimeError: DataLoader worker (pid(s) 881) exited unexpectedly"
        ),
    ],
    "stale_epoch": [
        "ValueError: dataset attribute should not be set after DataLoader is initialized",
    ],
    "shared_file_offset": [
        _worker("zipfile.BadZipFile", "Bad CRC-32 for file 'B/1/0/c/0/0/0'"),
        _worker("zlib.error", "Error -3 while decompressing data: invalid block type"),
        _worker("KeyError", "'Unable to open object (bad object header version number)'"),
        _worker("OSError", "Can't read data (inflate() failed)", "return self.h5['x'][i]"),
        _worker("tarfile.ReadError", "unexpected end of data"),
        "RuntimeError: Unable to get link info (wrong fractal heap header signature)",
        (
            "RuntimeError: Traceback (most recent call last):\n"
            '  File "torch/utils/data/dataloader.py", line 57, in _worker_loop\n'
            "    samples = collate_fn([dataset[i] for i in batch_indices])\n"
            "zlib.error: Error -3 while decompressing data: invalid distance too far back"
        ),
    ],
    "shared_connection": [
        "lmdb.BadRslotError: mdb_txn_begin: MDB_BAD_RSLOT: Invalid reuse of reader locktable slot",
        _worker("sqlite3.DatabaseError", "database disk image is malformed"),
        (
            "sqlalchemy.exc.OperationalError: (psycopg2.OperationalError) SSL error: decryption failed "
            "or bad record mac"
        ),
        (
            'psycopg2.OperationalError: lost synchronization with server: got message type "D", '
            "length 774778414"
        ),
        "pymysql.err.InternalError: Packet sequence number wrong - got 1 expected 2",
        "redis.exceptions.InvalidResponse: Protocol Error: b'3b'",
        (
            "/pymongo/topology.py:164: UserWarning: MongoClient opened before fork. Create MongoClient "
            "only after forking."
        ),
    ],
    "unloadable": [
        '    self = reduction.pickle.load(from_parent)\n  File "d.py", line 5, in __getattr__\nRecursionError: maximum recursion depth exceeded',
        "    self = reduction.pickle.load(from_parent)\nTypeError: BadTile.__init__() missing 1 required positional argument: 'reason'",
    ],
    "unpicklable_handle": [
        _START.format("TypeError: can't pickle _thread.lock objects"),
        _START.format("TypeError: cannot pickle 'module' object"),
        _START.format("AttributeError: Can't get local object 'main.<locals>.<lambda>'"),
        (
            "TypeError: cannot pickle 'BufferedReader' instances\nwhen serializing dict item 'file'\n"
            "when serializing __main__.Records state\nwhen serializing Records object\nwhen "
            "serializing multiprocessing.context.ForkServerProcess object"
        ),
        "_pickle.PicklingError: Can't pickle local object <function main.<locals>.collate at 0x7f>",
        "TypeError: no default __reduce__ due to non-trivial __cinit__",
        "TypeError: cannot serialize '_io.BufferedReader' object",
        "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f>: attribute lookup <lambda> on __main__ failed",
        # `explain` must name the cause first, and not the consequence in the same log.
        _START.format("TypeError: cannot pickle 'Environment' object")
        + "Traceback (most recent call last):\n    self = reduction.pickle.load(from_parent)\n"
        "EOFError: Ran out of input",
    ],
    "main_only_class": [
        (
            "_pickle.PicklingError: Can't pickle <function collate at 0x7f8b>: attribute lookup collate "
            "on __main__ failed"
        ),
        (
            '  File "multiprocessing/spawn.py", line 126, in _main\n    self = reduction.pickle.load('
            "from_parent)\nAttributeError: Can't get attribute 'Net' on <module '__mp_main__' from 'a'>\n"
            "RuntimeError: DataLoader worker (pid(s) 10, 11) exited unexpectedly"
        ),
    ],
    "missing_main_guard": [
        (
            "        This probably means that you are not using fork to start your\n        child "
            "processes and you have forgotten to use the proper idiom\n        in the main module:\n\n"
            "            if __name__ == '__main__':\n                freeze_support()"
        ),
        _START.format("BrokenPipeError: [Errno 32] Broken pipe"),
    ],
    "generator_attribute": [
        "TypeError: cannot pickle 'torch._C.Generator' object",
    ],
    "children_of_workers": [
        (
            'concurrent/futures/process.py", line 12\n    p.start()\nAssertionError: daemonic processes '
            "are not allowed to have children"
        ),
    ],
    "lost_thread": [
        (
            "huggingface/tokenizers: The current process just got forked, after parallelism has already "
            "been used. Disabling parallelism to avoid deadlocks..."
        ),
        "RuntimeError: This class is not fork-safe",
        (
            'Thread 0x00007f (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line '
            '327 in wait\n  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 451 in result\n'
            '  File "data.py", line 40 in __getitem__\n  File "torch/utils/data/_utils/worker.py", line '
            "349 in _worker_loop"
        ),
    ],
    "held_lock": [
        (
            '  File "/opt/torch/utils/data/dataloader.py", line 1011, in _try_get_data\n'
            "    data = self._data_queue.get(timeout=timeout)\n"
            '  File "/usr/lib/python3.8/multiprocessing/connection.py", line 931, in wait\n'
            "    ready = selector.select(timeout)\nKeyboardInterrupt"
        ),
        (
            "objc[72091]: +[__NSCFConstantString initialize] may have been in progress in another thread "
            "when fork() was called. We cannot safely call it or ignore it in the fork() child process."
        ),
    ],
    "short_timeout": [
        "RuntimeError: DataLoader timed out after 120 seconds",
    ],
    "openmp_after_fork": [
        "Terminating: fork() called from a process already using GNU OpenMP, this is unsafe.",
    ],
    "shm_exhausted": [
        "RuntimeError: unable to write to file </torch_15769_1517813162>",
        "RuntimeError: unable to write to file </torch_76_3625483894_12>: No space left on device (28)",
        "    sl = self._semlock = _multiprocessing.SemLock(\nOSError: [Errno 28] No space left on device",
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-UbzKZ9 (size 9637888)",
        'Pod evicted: Usage of EmptyDir volume "dshm" exceeds the limit "1Gi".',
        "RuntimeError: unable to open shared memory object </torch_123_456> in read-write mode: No space left on device (28)",
        # `explain` must name the cause first, and not the consequences in the same log.
        (
            "UserWarning: This DataLoader will create 16 worker processes in total.\n"
            "huggingface/tokenizers: The current process just got forked, after parallelism has already\n"
            "Epoch 0: 100%\nRuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It "
            "is possible that dataloader's workers are out of shared memory."
        ),
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
            "shared memory (shm).\nRuntimeError: DataLoader worker (pid(s) 5) exited unexpectedly\n"
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>"
        ),
    ],
    "too_many_open_files": [
        "OSError: [Errno 23] Too many open files in system",
        (
            "RuntimeError: unable to open shared memory object </torch_29919_1396182366> in read-write "
            "mode"
        ),
        (
            "RuntimeError: unable to mmap 2048 bytes from file <filename not specified>: Cannot "
            "allocate memory (12)"
        ),
        "OSError: [Errno 24] Zu viele offene Dateien: '/data/a.png'",
    ],
    "orphaned_segments": [
        "could not unlink the shared memory file /torch_12_34 : No such file",
    ],
    "ranks": [
        (
            "ValueError: you need to add an explicit nodesplitter to your input pipeline for multi-node "
            "training"
        ),
    ],
    "uneven_ranks": [
        (
            "[rank7]:[E419 10:42:28.958931807 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=4486, OpType=ALLTOALL, Timeout(ms)=600000)"
        ),
    ],
    "wrong_length": [
        _worker("IndexError", "index 1203 is out of bounds for axis 0 with size 1200"),
        _worker("IndexError", "list index out of range"),
    ],
    "oversubscribed": [
        (
            "OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource temporarily "
            "unavailable"
        ),
    ],
}

ORDINARY: list[str] = [
    'File "C:\\venv\\lib\\site-packages\\torch\\serialization.py", line 850, in _save\n'
    "    pickler.dump(obj)\nTypeError: cannot pickle '_thread.lock' object",
    'File "torch/serialization.py", line 850, in _save\n    pickler.dump(obj)\n'
    "AttributeError: Can't pickle local object 'main.<locals>.schedule'",
    "INFO: Pods finished with exit code 0. Epoch 137, status 0, 3 workers exited",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB)",
    "RuntimeError: CUDA error: device-side assert triggered",
    "RuntimeError: CUDA error: out of memory",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 256x10)",
    "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 24 but got size 25",
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/train/0001.png'",
    _worker("FileNotFoundError", "[Errno 2] No such file or directory: '/data/a.png'"),
    _worker("KeyError", "'label'", "return self.labels[name]"),
    _worker("KeyError", "0", "row = self.frame.label[i]"),
    _worker("ValueError", "could not convert string to float: 'n/a'"),
    _worker("RuntimeError", "The size of tensor a (3) must match the size of tensor b (4)"),
    _worker("TypeError", "unsupported operand type(s) for +: 'int' and 'str'"),
    _worker("AttributeError", "'list' object has no attribute 'to'"),
    "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
    "found <class 'PIL.Image.Image'>",
    "ModuleNotFoundError: No module named 'torchvision.io._video_opt'",
    "IndexError: list index out of range",
    "IndexError: Target 10 is out of bounds.",
    "IndexError: index 5 is out of bounds for dimension 0 with size 3",
    "IndexError: index out of range in self",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
    "OSError: [Errno 28] No space left on device: 'checkpoints/epoch_3.pt'",
    "OSError: [Errno 28] No space left on device",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443)",
    "psycopg2.OperationalError: could not connect to server: Connection refused",
    "zipfile.BadZipFile: File is not a zip file",
    "gzip.BadGzipFile: Not a gzipped file (b'<!')",
    "_pickle.UnpicklingError: invalid load key, '<'.",
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    'File "torch/serialization.py", line 1172, in load\n    result = unpickler.load()\n'
    "AttributeError: Can't get attribute 'Net' on <module '__main__' from 'eval.py'>",
    'File "/usr/lib/python3.11/copy.py", line 161, in deepcopy\n    rv = reductor(4)\n'
    "TypeError: cannot pickle '_io.TextIOWrapper' object",
    "usage: train.py [-h] --data DATA\ntrain.py: error: the following arguments are required: --data",
    "SystemExit: 2",
    "KeyboardInterrupt",
    "Killed it: new best validation accuracy 0.91",
    "UserWarning: 'pin_memory' argument is set as true but no accelerator is found, then device "
    "pinned memory won't be used.",
    "ValueError: prefetch_factor option could only be specified in multiprocessing.",
    "ValueError: DataLoader with IterableDataset: expected unspecified shuffle option",
    "ValueError: num_samples should be a positive integer value, but got num_samples=0",
    "RuntimeError: Trying to backward through the graph a second time",
    "RuntimeError: one of the variables needed for gradient computation has been modified by an "
    "inplace operation: [torch.cuda.FloatTensor [64]] is at version 2; expected version 1",
    "NaN or Inf found in input tensor.",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
    "when serializing dict item 'name'",
    'File "concurrent/futures/_base.py", line 449, in result\n    return self.__get_result()\n'
    "ValueError: bad row",
    "Step 1370/20000 | loss 0.137 | exit criteria not met | code 137 tokens/s",
]
