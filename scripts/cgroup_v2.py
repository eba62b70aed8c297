"""Run the tests of `confine` under cgroup version 2, on Debian's Linux in a virtual machine.

`python scripts/cgroup_v2.py` downloads Debian's Linux, boots it in QEMU, and runs
`test_cgroup_v2.py` and `test_cgroups.py` from `tests/system` in the guest. The guest can read this
machine's files, including the Python that runs this script, but can't write them. The script needs
Debian (for `apt-get download`), the package qemu-system-x86, and a few minutes, but neither root
nor KVM. `make test` doesn't run the script.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
TESTS: Final = ("tests/system/test_cgroup_v2.py", "tests/system/test_cgroups.py")
QEMU: Final = "qemu-system-x86_64"
PACKAGES: Final = ("busybox-static",)  # the script downloads these in addition to Linux itself
MODULES: Final = ("virtio_pci", "virtio_blk", "9pnet_virtio", "9p")
SWAP: Final = 256 << 20  # bytes of swap, so that the tests notice if a limited group swaps
SECONDS: Final = 2400  # the most seconds that the virtual machine may run

# The guest's init script, for busybox's shell. This machine's files are mounted at /host.
INIT: Final = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /host
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
for module in {modules}; do insmod /modules/$module.ko || echo "no $module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=1048576 files /host
cd /host
mount --bind /dev dev; mkdir -p /dev/shm; mount -t tmpfs -o size=512m,mode=1777 shm dev/shm
mount -t proc proc proc; mount -t sysfs sysfs sys; mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmp {tmp}
mkswap /dev/vda >/dev/null; swapon /dev/vda
echo +memory > sys/fs/cgroup/cgroup.subtree_control
ip link set lo up
echo "kernel $(uname -r), $(grep MemTotal /proc/meminfo), $(grep SwapTotal /proc/meminfo)"
chroot . /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME={tmp} LANG=C.UTF-8 \\
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={repository} sh -c {command}
echo "ended with exit code $?"
poweroff -f
"""


def main() -> None:
    """Boot the guest, run the tests, and exit with their exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", nargs="*", default=TESTS, help="test files and options for pytest")
    parser.add_argument("--memory", default="2G", help="memory of the guest (default 2G)")
    given, options = parser.parse_known_args()
    if shutil.which(QEMU) is None:
        sys.exit(f"{QEMU} isn't installed: apt-get install qemu-system-x86")
    with tempfile.TemporaryDirectory(prefix="dltutor-vm-") as name:
        folder = Path(name)
        files = unpack(folder)
        (kernel,) = files.glob("boot/vmlinuz-*")
        image = folder / "initramfs"
        image.write_bytes(b"".join(archive(files, [*given.tests, *options])))
        with (folder / "swap").open("wb") as swap:
            swap.truncate(SWAP)
        code = boot(kernel, image, folder / "swap", given.memory)
    sys.exit(code)


def unpack(folder: Path) -> Path:
    """Download and unpack Linux and `PACKAGES`, and return the folder with their files."""
    depends = subprocess.run(
        ["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=True
    ).stdout
    kernels = re.findall(r"Depends: (linux-image-\S+)", depends)
    subprocess.run(
        ["apt-get", "download", "-qq", kernels[0], *PACKAGES],
        cwd=folder,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "files"], check=True)
    return folder / "files"


def archive(files: Path, tests: list[str]) -> Iterator[bytes]:
    """Yield the guest's initial file system, in the format that Linux reads (cpio, newc)."""
    modules = {path.stem: path for path in files.glob("lib/modules/**/*.ko")}
    order: list[str] = []
    for name in MODULES:
        add_with_dependencies(name, modules, order)
    pytest = [sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", *tests]
    command = f"cd {REPOSITORY} && {shlex.join(pytest)}"
    init = INIT.format(
        modules=" ".join(order),
        repository=REPOSITORY,
        tmp=tempfile.gettempdir().lstrip("/"),
        command=shlex.quote(command),
    )
    yield entry("bin", b"", 0o040755)
    yield entry("modules", b"", 0o040755)
    yield entry("bin/busybox", (files / "bin/busybox").read_bytes(), 0o100755)
    for name in order:
        yield entry(f"modules/{name}.ko", modules[name].read_bytes(), 0o100644)
    yield entry("init", init.encode(), 0o100755)
    yield entry("TRAILER!!!", b"", 0)


def add_with_dependencies(name: str, modules: dict[str, Path], order: list[str]) -> None:
    """Append a module to `order` after its dependencies, unless it's built into Linux."""
    if name in order or name not in modules:
        return
    found = re.search(rb"\0depends=([^\0]*)\0", modules[name].read_bytes())
    for other in found[1].decode().split(",") if found else ():
        add_with_dependencies(other, modules, order)
    order.append(name)


def entry(name: str, data: bytes, mode: int) -> bytes:
    """Return one file in the format of a cpio archive."""
    numbers = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def boot(kernel: Path, image: Path, swap: Path, memory: str) -> int:
    """Boot the guest, print its output, and return its tests' exit code (1 if they didn't end)."""
    command = [
        *(QEMU, "-m", memory, "-smp", "1", "-cpu", "max", "-nographic", "-no-reboot"),
        *("-kernel", str(kernel), "-initrd", str(image)),
        *("-append", "console=ttyS0 quiet panic=-1"),
        *("-drive", f"file={swap},if=virtio,format=raw"),
        *(
            "-virtfs",
            "local,path=/,mount_tag=files,security_model=none,readonly=on,multidevs=remap",
        ),
    ]
    code = 1
    with subprocess.Popen(
        ["timeout", str(SECONDS), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as guest:
        assert guest.stdout is not None
        for line in guest.stdout:
            print(line, end="", flush=True)
            if found := re.match(r"ended with exit code (\d+)", line):
                code = int(found[1])
    return code


if __name__ == "__main__":
    main()
