#!/usr/bin/env python3
"""The campaign of faults: ranks that train and verify every step, and harm that comes to one of them at a random instant.

For each run: what every live rank saw and after how long, the status that `kolo run` ended with, and that nothing is left
behind. A hang, a wrong result, another error than the documented one, or something left behind is a failure. All choices
come from the seed; what the machine does with them does not.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
sys.path.insert(0, str(HERE))
from job import Hosts, Job  # noqa: E402
from leftovers import Leftovers  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402


def one_run(options, scenario, seed, hosts):
    """A record of the run: what was chosen, what was seen, and what is wrong with it."""
    choose = random.Random(f"{scenario.name} {seed}")
    plan = scenario.plan(choose, hosts, options.short)
    record = {"scenario": scenario.name, "seed": seed, **plan.described(), "problems": []}
    begin = time.monotonic()
    with Leftovers() as left:
        job = Job(options, plan, hosts, left)
        try:
            scenario.harm(job, plan, choose)
            job.wait()
        except TimeoutError as error:
            record["problems"].append(str(error))
        finally:
            job.end()
            scenario.undo(job, plan)
        record["status"] = job.status
        record["problems"] += job.complaints() + scenario.judge(job, plan)
        record["problems"] += [f"left behind: {item}" for item in left.found(3)]
        record["seen"] = job.errors()
        record["delays"] = job.delays()
        record["seconds"] = round(time.monotonic() - begin, 2)
        if record["problems"]:
            record["output"] = job.text()
    return record


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def row(name, records):
    """One line of the table."""
    delays = [delay for record in records for delay in record["delays"]]
    types = sorted({error["type"] for record in records for error in record["seen"] if error["type"] != "own"})
    statuses = sorted({record["status"] for record in records}, key=str)
    shown = ["-" if value is None else f"{value:.3f}" for value in
             (percentile(delays, 0.5), percentile(delays, 0.99), max(delays, default=None))]
    failed = sum(bool(record["problems"]) for record in records)
    return (f"| {name} | {len(records)} | {', '.join(types) or 'nothing'} | {' / '.join(shown)} | "
            f"{', '.join(map(str, statuses))} | {failed} |")


def table(records):
    yield "| scenario | runs | live ranks saw | after s: p50 / p99 / max | status | failed |"
    yield "|---|---|---|---|---|---|"
    for scenario in SCENARIOS:
        for place in ("one host", "several hosts"):
            chosen = [record for record in records if record["scenario"] == scenario.name and record["place"] == place]
            if chosen:
                yield row(f"{scenario.name}, {place}", chosen)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kolo", required=True, help="the program `kolo`")
    parser.add_argument("--rank", required=True, help="the program campaign_rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=10, help="of each scenario")
    parser.add_argument("--scenario", action="append", choices=[scenario.name for scenario in SCENARIOS],
                        help="only this one; may be repeated")
    parser.add_argument("--place", choices=["one", "several"], help="only on one host, or only on several")
    parser.add_argument("--short", action="store_true", help="at most 4 ranks, no thousandth steps")
    parser.add_argument("--json", help="file for the records, one a line")
    return parser.parse_args(words)


def main(words):
    options = parse(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    records = []
    out = open(options.json, "w", encoding="utf-8") if options.json else None
    with Hosts(options.place == "one") as hosts:
        if not hosts.possible and options.place != "one":
            print(f"several hosts: not tried: {hosts.reason}")
        for scenario in SCENARIOS:
            if options.scenario and scenario.name not in options.scenario:
                continue
            for seed in range(options.seed, options.seed + options.runs):
                scenario.place = options.place
                if not scenario.possible(hosts):
                    break
                record = one_run(options, scenario, seed, hosts)
                records.append(record)
                if out:
                    out.write(json.dumps(record) + "\n")
                    out.flush()
                if record["problems"]:
                    print(f"{scenario.name}, seed {seed}: {record['problems']}\n{json.dumps(record, indent=1)}", flush=True)
    print("\n".join(table(records)))
    failed = sum(bool(record["problems"]) for record in records)
    print(f"{len(records)} runs, {failed} failed" + (f"; again: --scenario NAME --seed SEED --runs 1" if failed else ""))
    return 1 if failed or not records else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
