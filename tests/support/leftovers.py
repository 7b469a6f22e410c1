"""What a job leaves behind on this machine: processes, shared memory, temporary files."""
import contextlib
import os
import pathlib
import shutil
import tempfile
import time
import uuid

VARIABLE = "KOLO_LEFTOVERS_MARK"  # inherited by everything that the job starts


def files_of_jobs():
    """In /dev/shm, where Open MPI and kolo's own shared memory may be."""
    return {path for path in pathlib.Path("/dev/shm").glob("*")}


def in_use(path):
    """Whether some process maps the file: a job beside ours, which has every right to."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(path) in (process / "maps").read_text():
                return True
        except OSError:
            pass  # it has ended, or is not ours to look into
    return False


class Leftovers:
    """with Leftovers() as left: run a job with left.environment; then left.found() lists what is still there."""

    def __enter__(self):
        self.mark = uuid.uuid4().hex
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kolo-test-"))
        self.before = files_of_jobs()
        self.environment = {**os.environ, VARIABLE: self.mark, "TMPDIR": str(self.folder)}
        return self

    def __exit__(self, *_):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # the process has ended meanwhile
                os.kill(pid, 9)
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        wanted = f"{VARIABLE}={self.mark}".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (process / "environ").read_bytes().split(b"\0"):
                    yield int(process.name)
            except OSError:
                pass

    def found(self, patience=0.0, files=True):
        """Sentences, none when everything is gone within `patience` seconds. files=False: only processes matter."""
        end = time.monotonic() + patience
        while True:
            left = [item for item in self.sentences() if files or item.startswith("process")]
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.1)

    def sentences(self):
        for pid in self.processes():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if words:  # else it is dead, and only waits to be collected
                yield f"process {pid}: {words.strip()[:100]}"
        for path in sorted(files_of_jobs() - self.before):
            if not in_use(path) and path.exists():
                yield f"file {path}"
        for folder, folders, files in os.walk(self.folder):  # unlike rglob it does not mind what goes meanwhile
            for name in sorted(folders + files):
                yield f"file {os.path.join(folder, name)}"
