"""What can happen to a rank, and what all others must then see."""
import concurrent.futures
import dataclasses
import os
import signal
import subprocess
import sys
import time

import garbage
from job import CLUSTER, MONITOR, TIMEOUT

EVER = 30.0  # seconds: later than this nobody may learn of a loss, however slow the machine


@dataclasses.dataclass
class Plan:
    ranks: int
    hosts: list  # (name, ranks); empty: this machine alone
    fault: str  # what campaign_rank does to itself
    victim: int
    step: int
    where: str
    timeout: float = 60.0
    wrapper: list = dataclasses.field(default_factory=list)
    pause: float = 0.0  # seconds between the step and the harm

    def described(self):
        place = "several hosts" if self.hosts else "one host"
        return {"place": place, "ranks": self.ranks, "hosts": [slots for _, slots in self.hosts], "victim": self.victim,
                "step": self.step, "where": self.where, "pause": round(self.pause, 4)}

    def host_of(self, rank):
        for name, slots in self.hosts:
            if rank < slots:
                return name
            rank -= slots
        return "here"

    def ranks_on(self, host):
        return [rank for rank in range(self.ranks) if self.host_of(rank) == host]


class Scenario:
    """Most of them: something that one rank does to itself, and an error that all others get."""

    name = ""
    fault = "stay"
    places = ("one", "several")
    place = None  # only this one
    needs_root = False
    timeout = 60.0
    places_in_step = ("before", "inside", "after")
    fewest = 2

    def possible(self, hosts):
        where = [place for place in self.places if self.place in (None, place)]
        if self.needs_root and not hosts.root:
            return False
        return "one" in where or ("several" in where and hosts.possible)

    def plan(self, choose, hosts, short):
        ranks = choose.randint(self.fewest, 4 if short else 8)
        where = [place for place in self.places if self.place in (None, place) and (place == "one" or hosts.possible)]
        # Early, in between, and the thousandth.
        steps = [0, 1, 2, choose.randint(3, 60)] + ([] if short else [1000])
        plan = Plan(ranks, [], self.fault, choose.randrange(ranks), choose.choice(steps), choose.choice(self.places_in_step),
                    self.timeout)
        if choose.choice(where) == "several":
            plan.hosts = self.spread(choose, ranks)
        plan.pause = choose.choice([0.0, choose.uniform(0, 0.003), choose.uniform(0, 0.05)])
        return plan

    def spread(self, choose, ranks):
        count = choose.randint(2, min(4, ranks))
        slots = [ranks // count + (k < ranks % count) for k in range(count)]
        return [(f"h{k}", slots[k]) for k in range(count)]

    def harm(self, job, plan, choose):
        """Nothing from outside: the rank has its orders."""

    def undo(self, job, plan):
        """Takes back what would outlive the job."""

    def dead(self, plan):
        """Ranks that are lost."""
        return [plan.victim]

    def live(self, plan):
        return [rank for rank in range(plan.ranks) if rank not in self.dead(plan)]

    def judge(self, job, plan):
        raise NotImplementedError


class Loss(Scenario):
    """All others get PeerLostError, name a rank that is lost, agree on who is left, and go on without."""

    statuses = (137,)

    def judge(self, job, plan):
        problems = []
        live, dead = self.live(plan), self.dead(plan)
        errors, survivors, anew, ok, cut_off = (job.of(name) for name in ("error", "survivors", "anew", "ok", "cut off"))
        # Half of the world, without its lowest rank, goes on only if it is certain that the other half does not.
        may_stop = bool(plan.hosts) and 2 * len(live) <= plan.ranks and 0 in dead and (not cut_off or set(live) <= set(cut_off))
        for rank in live:
            error = errors.get(rank)
            if error is None:
                problems.append(f"rank {rank} saw nothing")
            elif error["type"] != "PeerLostError" or error["ranks"][0] not in dead:
                problems.append(f"rank {rank} saw {error['type']} of {error['ranks']}: {error['text']}")
            if may_stop and rank in cut_off:
                continue
            if survivors.get(rank, {}).get("ranks") != live:
                problems.append(f"rank {rank}: survivors {survivors.get(rank, {}).get('ranks')}, expected {live}")
            if len(live) > 1 and anew.get(rank, {}).get("size") != len(live):
                problems.append(f"rank {rank} did not begin anew")
            if rank not in ok:
                problems.append(f"rank {rank} did not end in order")
        problems += wrong_status(job, self.statuses)
        problems += [f"after {delay} s" for delay in job.delays() if delay > EVER]
        return problems


class Kill(Loss):
    name = "kill"

    def harm(self, job, plan, choose):
        pid = job.pid(plan.victim)
        job.await_event("there", plan.victim)
        time.sleep(plan.pause)
        job.harm_now()
        os.kill(pid, signal.SIGKILL)


class Exit(Loss):
    name = "exit without a word"
    fault = "exit"
    statuses = (3,)


class Stop(Loss):
    """Silent for longer than is allowed; when it wakes up it must find that the world has gone on without it."""

    name = "stop, then wake"
    fewest = 3
    # Fenced on its host (killed); or, where nobody can reach it, told when it wakes, and then it ends in its own way.
    statuses = (137, 0)

    def harm(self, job, plan, choose):
        pid = job.pid(plan.victim)
        job.await_event("there", plan.victim)
        time.sleep(plan.pause)
        job.harm_now()
        os.kill(pid, signal.SIGSTOP)
        for rank in self.live(plan):
            job.await_event("error", rank)
        time.sleep(choose.uniform(0, 2))
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # ended by the others, as it should be where they can


class ShortStop(Scenario):
    """Shorter than is allowed: nobody notices."""

    name = "short stop"
    fault = "none"

    def harm(self, job, plan, choose):
        pid = job.pid(plan.victim)
        job.await_event("there", plan.victim)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(choose.uniform(0, MONITOR / 4))
        os.kill(pid, signal.SIGCONT)

    def judge(self, job, plan):
        return all_well(job, plan)


class Lag(Scenario):
    """Ten times as slow as the others, step after step."""

    name = "slow rank"
    fault = "slow"
    places_in_step = ("before", "inside", "after")

    def judge(self, job, plan):
        return all_well(job, plan)


class Garbage(Scenario):
    """Strangers at every port of the ranks' monitors and of kolo run."""

    name = "garbage on ports"
    fault = "none"
    doors = (0,)

    def plan(self, choose, hosts, short):
        plan = super().plan(choose, hosts, short)
        plan.step = 3000  # some seconds
        return plan

    def harm(self, job, plan, choose):
        pids = [job.process.pid, *(job.pid(rank) for rank in range(plan.ranks))]
        seeds = [choose.randrange(2**32) for _ in pids]
        with concurrent.futures.ThreadPoolExecutor(len(pids)) as pool:  # one after the other they would come too late
            self.doors = list(pool.map(garbage.send, pids, seeds))

    def judge(self, job, plan):
        shut = [] if self.doors[0] and any(self.doors[1:]) else [f"nobody listens: {self.doors}"]
        return shut + all_well(job, plan)


class FullMemory(Scenario):
    """No room in /dev/shm: kolo does not need any, MPI says so and does without."""

    name = "full /dev/shm"
    fault = "none"
    places = ("one",)
    needs_root = True

    def plan(self, choose, hosts, short):
        plan = super().plan(choose, hosts, short)
        size = choose.choice(["4k", "64k", "1m"])
        plan.wrapper = ["unshare", "--mount", "sh", "-c",
                        f'mount -t tmpfs -o size={size} full /dev/shm; head -c 1100000 /dev/zero >/dev/shm/full 2>&-; exec "$@"',
                        "sh"]
        return plan

    def judge(self, job, plan):
        return all_well(job, plan)


class Throw(Scenario):
    name = "throws"
    fault = "throw"

    def judge(self, job, plan):
        return everybody_saw(job, plan, "PeerFailedError", [plan.victim], "out of luck", own=True)


class Leave(Scenario):
    """Ends its Context in the middle, and goes: the others hear of it at once, and nobody counts as lost."""

    name = "leaves early"
    fault = "leave"

    def judge(self, job, plan):
        survivors = job.of("survivors")
        problems = wrong_errors(job, {rank: "PeerLostError" for rank in self.live(plan)}, [plan.victim])
        for rank in self.live(plan):
            if survivors.get(rank, {}).get("ranks") != list(range(plan.ranks)):
                problems.append(f"rank {rank}: survivors {survivors.get(rank, {}).get('ranks')}")
        return problems + wrong_endings(job, plan)


class Silent(Scenario):
    name = "never submits"
    fault = "silent"
    timeout = TIMEOUT

    def judge(self, job, plan):
        return everybody_saw(job, plan, "TimeoutError", [plan.victim], "metric", own=True)


class Other(Scenario):
    name = "submits something else"
    fault = "other"

    def judge(self, job, plan):
        return everybody_saw(job, plan, "MismatchError", [], "metric", own=False)


class CutLink(Loss):
    """The link of one host goes down: the larger side goes on, the other one ends."""

    name = "cut link"
    places = ("several",)
    fewest = 3
    statuses = (120,)

    def spread(self, choose, ranks):
        # The side that goes on must be a majority: of three hosts, or of two with one rank more.
        if ranks % 2 == 0 or choose.random() < 0.5:
            count = choose.randint(3, min(4, ranks))
            slots = [ranks // count + (k < ranks % count) for k in range(count)]
        else:
            slots = [ranks // 2 + 1, ranks // 2]
        return [(f"h{k}", slots[k]) for k in range(len(slots))]

    def plan(self, choose, hosts, short):
        plan = super().plan(choose, hosts, short)
        # The last host has the fewest ranks.
        plan.victim = plan.ranks - 1
        return plan

    def dead(self, plan):
        return plan.ranks_on(plan.host_of(plan.victim))

    def harm(self, job, plan, choose):
        job.pid(plan.victim)
        job.await_event("there", plan.victim)
        time.sleep(plan.pause)
        job.harm_now()
        cluster(job, "cut", plan.host_of(plan.victim))

    def undo(self, job, plan):
        cluster(job, "heal", plan.host_of(plan.victim))


class LostDaemon(CutLink):
    """The launcher's daemon on one host dies, and with it its ranks."""

    name = "lost orted"
    statuses = (120,)

    def harm(self, job, plan, choose):
        pid = job.pid(plan.victim)
        job.await_event("there", plan.victim)
        time.sleep(plan.pause)
        daemon = parent(parent(pid))  # beyond the supervisor
        job.harm_now()
        os.kill(daemon, signal.SIGKILL)

    def undo(self, job, plan):
        pass


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def cluster(job, *words):
    environment = {**os.environ, "EMULATED_HOSTS": job.emulated}
    subprocess.run([CLUSTER, *words], env=environment, check=True)


def all_well(job, plan):
    return wrong_endings(job, plan) + [f"rank {error['rank']} saw {error['type']}: {error['text']}" for error in job.errors()]


def everybody_saw(job, plan, kind, ranks, text, own):
    """own: the victim has an error of its own. All go on afterwards, in the same world."""
    kinds = {rank: "own" if own and rank == plan.victim else kind for rank in range(plan.ranks)}
    problems = wrong_errors(job, kinds, ranks, text)
    problems += [f"rank {rank} did not go on" for rank in range(plan.ranks) if rank not in job.of("went on")]
    return problems + wrong_status(job, [0])


def wrong_errors(job, kinds, ranks, text=""):
    """Where a rank has not seen an error of its kind, or not one that names `ranks` (if any) and says `text`. An error of
    the rank's own may say anything."""
    problems = []
    for rank, kind in kinds.items():
        error = job.of("error").get(rank)
        if error is None:
            problems.append(f"rank {rank} saw nothing")
        elif error["type"] != kind:
            problems.append(f"rank {rank} saw {error['type']}, expected {kind}: {error['text']}")
        elif kind != "own" and ((ranks and error["ranks"] != ranks) or text not in error["text"]):
            problems.append(f"rank {rank}: {error['ranks']}: {error['text']}")
    return problems


def wrong_endings(job, plan):
    problems = [f"rank {rank} did not end in order" for rank in range(plan.ranks) if rank not in job.of("ok")]
    return problems + wrong_status(job, [0])


def wrong_status(job, expected):
    return [] if job.status in expected else [f"status {job.status}, expected {' or '.join(map(str, expected))}"]


SCENARIOS = [Kill(), Exit(), Stop(), ShortStop(), CutLink(), LostDaemon(), Lag(), Leave(), Throw(), Silent(), Other(),
             FullMemory(), Garbage()]
