"""What the repository checks share: a read-only view of the project, real or made up, and the two ways to run a check."""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = {"build", "data"}  # at the root: build products, and what the demo made
CODE = (".h", ".cpp", ".cu")


class Project:
    """Files below a folder, as text, named by their path from it."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def files(self, *folders, endings=None):
        """Paths as text, sorted; `folders` may name files too; build products and fetched things are left out."""
        found = []
        for folder in folders or (".",):
            start = self.root / folder
            if start.is_file():
                found.append(start)
            stack = [start] if start.is_dir() else []
            while stack:
                for entry in stack.pop().iterdir():
                    if entry.is_dir() and not entry.is_symlink():
                        if not self.skips(entry):
                            stack.append(entry)
                    elif entry.is_file():
                        found.append(entry)
        names = (path.relative_to(self.root).as_posix() for path in found)
        return sorted(name for name in names if endings is None or name.endswith(endings))

    def skips(self, folder):
        """Hidden folders (.deps, .venv, an editor's), caches, and folders in which something is built."""
        return (folder.name.startswith(".") or folder.name == "__pycache__" or (folder / "CMakeCache.txt").exists()
                or folder.parent == self.root and folder.name in SKIPPED)

    def code(self, *folders):
        return self.files(*folders, endings=CODE)

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def has(self, name):
        return (self.root / name).exists()

    def folders(self, name):
        """Subfolders of a folder that hold at least one file."""
        start = self.root / name
        if not start.is_dir():
            return []
        return sorted(entry.name for entry in start.iterdir() if entry.is_dir() and any(entry.iterdir()))


def without_comments(text):
    """C++ without comments; line numbers and string literals stay as they are."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        found = match.group(0)
        return "\n" * found.count("\n") if found.startswith("/") else found

    return pattern.sub(blank, text)


def includes(text):
    """(line number, header) of every #include."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1)


def main(check, bad, good=None):
    """Runs `check(project)`, which yields complaints, over the real project; with --self-test over made-up ones instead.

    `bad` is a list of (dict of path to text, word expected in the complaint); `good` is a dict that must pass.
    """
    if "--self-test" in sys.argv[1:]:
        return self_test(check, bad, good)
    complaints = list(check(Project(ROOT)))
    for complaint in complaints:
        print(complaint)
    name = pathlib.Path(sys.argv[0]).stem
    print(f"{name}: {len(complaints)} complaints" if complaints else f"{name}: fine")
    return 1 if complaints else 0


def made_up(files):
    folder = tempfile.TemporaryDirectory()
    for name, text in files.items():
        path = pathlib.Path(folder.name) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def self_test(check, bad, good):
    failures = 0
    for files, expected in bad:
        with made_up(files) as folder:
            complaints = list(check(Project(folder)))
        if not any(expected in complaint for complaint in complaints):
            failures += 1
            print(f"does not bite: expected a complaint with '{expected}', got {complaints}")
    if good is not None:
        with made_up(good) as folder:
            complaints = list(check(Project(folder)))
        if complaints:
            failures += 1
            print(f"complains about what is right: {complaints}")
    print("self-test:", "FAILED" if failures else f"bites {len(bad)} times")
    return 1 if failures else 0
