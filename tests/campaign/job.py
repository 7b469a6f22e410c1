"""One job of campaign_rank under `kolo run`: starts it, reads what its ranks say, ends it."""
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

CLUSTER = pathlib.Path(__file__).resolve().parent.parent.parent / "script" / "cluster"
PATIENCE = 60  # seconds for whatever is waited for here
MONITOR = 2.0  # seconds that a rank may be silent
TIMEOUT = 6.0  # seconds for any wait among ranks


class Hosts:
    """Four emulated hosts, made when first needed."""

    def __init__(self, unwanted):
        self.environment = {**os.environ, "EMULATED_HOSTS": f"kolo-campaign-{os.getpid()}"}
        asked = self.cluster("possible")
        self.possible = not unwanted and asked.returncode == 0
        self.reason = asked.stdout.strip()
        self.root = os.geteuid() == 0
        self.up = False

    def cluster(self, *words):
        return subprocess.run([CLUSTER, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=self.environment, check=False)

    def need(self):
        if not self.up:
            done = self.cluster("up", "--hosts", "4")
            if done.returncode != 0:
                raise RuntimeError(done.stdout)
            self.up = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.up:
            self.cluster("down")


class Job:
    """Ranks say lines of JSON; everything that was said is kept, in the order in which it came."""

    def __init__(self, options, plan, hosts, left):
        self.plan = plan
        self.events, self.other = [], []
        self.changed = threading.Condition()
        self.harmed = None
        self.emulated = hosts.environment["EMULATED_HOSTS"]
        environment = {**left.environment, "KOLO_MONITOR_TIMEOUT": f"{MONITOR * 1000:.0f}ms", "KOLO_TIMEOUT": f"{plan.timeout * 1000:.0f}ms",
                       "KOLO_LOG_LEVEL": "error", "OMP_NUM_THREADS": "1"}
        command = [options.kolo, "run", "-n", str(plan.ranks), "--recovery", "--no-prefix", "--bind", "none", "--grace", "2",
                   "--timeout", str(PATIENCE)]
        if plan.hosts:
            hosts.need()
            environment["EMULATED_HOSTS"] = hosts.environment["EMULATED_HOSTS"]
            command = [CLUSTER, "on", "hub", *command, "--hosts", ",".join(f"{name}:{slots}" for name, slots in plan.hosts)]
        command += ["--", options.rank, plan.fault, str(plan.victim), str(plan.step), plan.where]
        self.process = subprocess.Popen([*plan.wrapper, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        self.readers = [threading.Thread(target=self.read, args=(stream,)) for stream in
                        (self.process.stdout, self.process.stderr)]
        for reader in self.readers:
            reader.start()

    def read(self, stream):
        for line in stream:
            with self.changed:
                try:
                    self.events.append(json.loads(line))
                except ValueError:
                    self.other.append(line)
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def await_event(self, name, rank=None):
        """The first event of that name, of that rank if one is given."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                for event in self.events:
                    if event["event"] == name and rank in (None, event["rank"]):
                        return event
                if self.process.poll() is not None and not any(reader.is_alive() for reader in self.readers):
                    raise TimeoutError(f"the job has ended without '{name}' of rank {rank}")
                if time.monotonic() > end:
                    raise TimeoutError(f"no '{name}' of rank {rank} within {PATIENCE} s")
                self.changed.wait(0.5)

    def pid(self, rank):
        return self.await_event("ready", rank)["pid"]

    def harm_now(self):
        """From this moment on delays are counted."""
        self.harmed = time.time()

    def wait(self):
        try:
            self.process.wait(PATIENCE + 20)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"kolo run has not ended after {PATIENCE + 20} s") from None

    def end(self):
        """Whatever has happened, nothing of it runs on."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for reader in self.readers:
            reader.join(10)

    @property
    def status(self):
        return self.process.returncode

    def of(self, name):
        """Events of that name, by rank."""
        return {event["rank"]: event for event in self.events if event["event"] == name}

    def errors(self):
        return [{key: event[key] for key in ("rank", "type", "ranks", "text")} for event in self.events
                if event["event"] == "error"]

    def delays(self):
        """Seconds from the harm to the error, of each rank that was told of it by one."""
        begin = self.harmed or self.of("there").get(self.plan.victim, {}).get("time")
        if begin is None:
            return []
        return [round(max(0.0, event["time"] - begin), 3) for event in self.events
                if event["event"] == "error" and event["type"] != "own"]

    def complaints(self):
        """What is wrong whatever the scenario."""
        found = [f"rank {event['rank']}: {event['event']}: {event['text']}" for event in self.events
                 if event["event"] in ("wrong", "unexpected")]
        if self.status == 124:
            found.append("it hangs: the time limit of kolo run has passed")
        if any("Sanitizer" in line for line in self.other):
            found.append("a sanitizer has something to say")
        return found

    def text(self):
        return [json.dumps(event) for event in self.events] + [line.rstrip() for line in self.other]
