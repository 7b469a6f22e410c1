#!/usr/bin/env python3
"""script/gpu-check where there is no GPU: how parts end, what the report makes of figures, and what a missing GPU says.

gpu_check_test.py ROOT [PROGRAMS]: of the source tree; with the folder of the programs, script/gpu-check itself too.
"""
import argparse
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stdout

ROOT = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = sys.argv[2] if len(sys.argv) > 2 else None
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True
import gpu_parts  # noqa: E402
import gpu_report  # noqa: E402
import gpu_runner  # noqa: E402


def load_script():
    """script/gpu-check, which has no ending that Python knows."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "script/gpu-check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def part(name, code, seconds=20, figures=False, **environment):
    return gpu_parts.Part(name, f"what {name} is", [sys.executable, "-c", code], seconds, environment, figures)


def kernel(what, variant, us, of_copy):
    return {"what": what, "variant": variant, "us": us, "us_p10": us, "us_p90": us, "bytes": 1, "gbps": 2000.0, "of_copy": of_copy}


def step(variant, batch, rate, of_alone=1.0, of_pytorch=1.0, of_ddp=1.0, ranks=1):
    return {"what": "images a second", "variant": variant, "ranks": ranks, "batch": batch, "amp": "bf16", "images_per_s": rate, "repetitions": [rate],
            "of_alone": of_alone, "of_pytorch": of_pytorch, "of_ddp": of_ddp}


class Parts(unittest.TestCase):
    def run_parts(self, parts, budget=60.0):
        """Results, and the log."""
        calls = []
        with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "w+", encoding="utf-8") as log:
            with redirect_stdout(io.StringIO()) as said:
                results = gpu_runner.run_parts(parts, dict(os.environ), log, budget, lambda so_far: calls.append(len(so_far)))
            text = pathlib.Path(f"{folder}/log").read_text(encoding="utf-8")
        self.assertEqual(calls, list(range(1, len(parts) + 1)))
        return results, text, said.getvalue()

    def test_no_failure_hides_the_parts_after_it(self):
        results, log, said = self.run_parts([
            part("bad", "print('the reason'); raise SystemExit(3)"), gpu_parts.Part("none", "", ["/no/such/program"], 5),
            part("good", "import os; print(os.environ['MARK'])", MARK="marked")])
        self.assertEqual([each.status for each in results], ["failed", "missing", "passed"])
        self.assertEqual(results[0].why, "status 3")
        self.assertIn("/no/such/program", results[1].why)
        self.assertIn("the reason", said)
        self.assertIn("marked", log)

    def test_a_part_ends_in_time_with_all_that_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            child = f"import os, time; open('{folder}/pid', 'w').write(str(os.getpid())); time.sleep(300)"
            parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
            results, _, _ = self.run_parts([part("slow", parent, seconds=3), part("next", "print(1)")])
            pid = int(pathlib.Path(f"{folder}/pid").read_text(encoding="utf-8"))
        self.assertEqual([each.status for each in results], ["timed out", "passed"])
        deadline = time.monotonic() + 10
        while pathlib.Path(f"/proc/{pid}/cmdline").exists() and time.monotonic() < deadline:
            if not pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                break  # ended, and waited for by nobody
            time.sleep(0.05)
        self.assertLess(time.monotonic(), deadline)

    def test_figures_are_the_json_lines_of_a_part(self):
        results, _, _ = self.run_parts([part("a", "print('x'); print('{\"what\": 1}'); print('{no json')", figures=True),
                                        part("b", "print('nothing')", figures=True)])
        self.assertEqual(results[0].figures, [{"what": 1}])
        self.assertEqual(results[1].status, "failed")

    def test_of_a_failure_its_beginning_and_its_end_are_shown(self):
        code = "print('a Failure here'); print('x\\n' * 200); print('the end'); raise SystemExit(1)"
        _, _, said = self.run_parts([part("long", "print('before ' * 3);" + code)])
        self.assertNotIn("before", said)
        for wanted in ("a Failure here", "[...]", "the end"):
            self.assertIn(wanted, said)
        self.assertLess(len(said.splitlines()), 60)

    def test_nothing_begins_after_the_budget(self):
        results, _, _ = self.run_parts([part("a", "print(1)"), part("b", "print(2)")], budget=0)
        self.assertEqual([each.status for each in results], ["not run", "not run"])


    def test_a_part_whose_tool_is_not_there_is_skipped(self):
        lacking = gpu_parts.Part("memcheck", "", ["/no/such/compute-sanitizer", "x"], 5, tool="compute-sanitizer")
        with_tool = part("racecheck", "print('ran')")
        with_tool.tool = "compute-sanitizer"
        results, log, said = self.run_parts([lacking, with_tool])
        self.assertEqual([each.status for each in results], ["skipped", "passed"])
        self.assertIn("memcheck: skipped: compute-sanitizer is not there", said)
        self.assertIn("compute-sanitizer is not there", log)
        self.assertIn("ran", log)

    def test_parts_of_the_sanitizer_name_their_tool(self):
        layout = gpu_parts.Layout(ROOT, pathlib.Path("/programs"), sys.executable, pathlib.Path("/torch"))
        tools = {each.name: each.tool for each in gpu_parts.tests(layout) if each.tool}
        self.assertEqual(tools, {"memcheck": "compute-sanitizer", "racecheck": "compute-sanitizer"})


class SeveralGpus(unittest.TestCase):
    def parts(self, gpus):
        layout = gpu_parts.Layout(ROOT, pathlib.Path("/programs"), sys.executable, pathlib.Path("/torch"), gpus)
        options = argparse.Namespace(amp="bf16", batch="64", repetitions=3, seconds=10)
        return {each.name: each for each in [*gpu_parts.tests(layout), *gpu_parts.benchmarks(layout, options)]}

    def sharing(self, gpus):
        """Parts whose ranks share GPUs."""
        return {name for name, each in self.parts(gpus).items()
                if "KOLO_SHARED_DEVICE" in each.environment or "KOLO_SHARED_DEVICE=on" in each.command}

    def test_ranks_share_only_where_there_are_too_few(self):
        of_two, of_four = {"nccl2", "training2", "trainer2", "killed"}, {name for name in self.parts(1) if name.startswith("hosts")}
        self.assertEqual(self.sharing(1), {*of_two, "nccl3", *of_four})
        self.assertEqual(self.sharing(2), {"nccl3", *of_four})
        self.assertEqual(self.sharing(4), set())

    def test_all_of_them_are_used_once(self):
        self.assertIn("nccl8", self.parts(8))
        self.assertIn("training8", self.parts(8))
        self.assertEqual([name for name in self.parts(6) if name.startswith("bench_step")],
                         ["bench_step_bf16", "bench_step_bf16_2", "bench_step_bf16_4", "bench_step_bf16_6"])
        self.assertEqual([name for name in self.parts(1) if name.startswith("bench_step")], ["bench_step_bf16"])

    def test_fewer_are_used_when_asked(self):
        visible = load_script().visible
        self.assertEqual(visible({}, 2), ["0", "1"])
        self.assertEqual(visible({"CUDA_VISIBLE_DEVICES": "3,5,7"}, 2), ["3", "5"])
        for number in (0, 4):
            with self.assertRaisesRegex(SystemExit, "CUDA_VISIBLE_DEVICES has 3"):
                visible({"CUDA_VISIBLE_DEVICES": "3,5,7"}, number)


class Verdict(unittest.TestCase):
    def verdict(self, *statuses):
        """Exit status, and what is said."""
        results = [gpu_runner.Result(f"part{number}", "", status, why="a reason") for number, status in enumerate(statuses)]
        with redirect_stdout(io.StringIO()) as said:
            try:
                return load_script().verdict(results, "log.txt"), said.getvalue()
            except SystemExit as end:
                return end.code, said.getvalue()

    def test_all_passed(self):
        self.assertEqual(self.verdict("passed", "passed"), (0, "[gpu-check] PASSED\n"))

    def test_a_failure_is_more_than_what_was_not_done(self):
        for status in ("failed", "timed out", "missing"):
            code, _ = self.verdict("passed", status, "skipped")
            self.assertEqual(code, "[gpu-check] FAILED: part1; all output is in log.txt")  # sys.exit makes it a 1

    def test_what_was_not_done_is_no_pass_and_no_failure(self):
        for status in ("skipped", "not run"):
            code, said = self.verdict("passed", status)
            self.assertEqual(code, 3)
            self.assertIn("NOT ALL DONE: part1 (a reason)", said)


class Report(unittest.TestCase):
    def figures(self, records):
        result = gpu_runner.Result("bench", "made up", "passed", figures=records)
        return {each.what: each for each in gpu_report.figures_of({"copy_gbps": 2000.0}, [result])}

    def test_goals_are_met_or_missed(self):
        found = self.figures([kernel("pack f32", "kolo", 100.0, 0.9),
                              kernel("pack f32", "foreach_copy", 150.0, 0.6), kernel("pack f32", "one by one", 90.0, 1.0),
                              kernel("unpack bf16", "kolo", 100.0, 0.5), kernel("sgd", "kolo", 50.0, 0.9),
                              kernel("sgd", "torch's fused", 60.0, 0.8)])
        self.assertEqual(found["pack f32: kolo, of the device-to-device copy's rate"].verdict, "met")
        self.assertEqual(found["pack f32: time of foreach_copy over kolo's"].value, 1.5)
        self.assertEqual(found["pack f32: time of one by one over kolo's"].verdict, "MISSED")
        self.assertEqual(found["unpack bf16: kolo, of the device-to-device copy's rate"].verdict, "MISSED")
        self.assertEqual(found["sgd: time of torch's fused over kolo's"].value, 1.2)

    def test_steps_are_compared_with_all_others(self):
        found = self.figures([step("kolo", 64, 2000.0, 0.985, 1.02, 1.05),
                              step("kolo's trainer without kolo", 64, 2030.0), step("PyTorch", 64, 1960.0),
                              step("PyTorch DDP", 64, 1900.0)])
        self.assertEqual(found["batch 64, bf16: kolo, of kolo's trainer without kolo"].value, 0.985)
        self.assertEqual(found["batch 64, bf16: kolo, of PyTorch DDP"].verdict, "met")
        # 2000 GB/s over 433 MB an image are 4619 images a second.
        self.assertAlmostEqual(found["batch 64, bf16: kolo, of what the memory allows"].value, 0.433, places=3)

    def test_ranks_are_compared_with_as_many(self):
        found = self.figures([step("kolo", 64, 2000.0), step("PyTorch DDP", 64, 1900.0), step("kolo", 64, 15000.0, 0.94, 0, 1.01, 8),
                              step("PyTorch DDP", 64, 14000.0, ranks=8)])
        eight = found["batch 64, bf16, 8 ranks: kolo, of PyTorch DDP"]
        self.assertEqual((eight.value, eight.beside), (1.01, "14000.0 images/s"))
        self.assertAlmostEqual(found["batch 64, bf16, 8 ranks: kolo, of what the memory allows"].value, 15000 / 8 / 4619, places=3)

    def test_what_kolo_costs_a_step_has_a_goal_and_what_ddp_costs_has_none(self):
        of_alone = {"what": "of_alone", "batch": 64, "amp": "bf16", "least": 0.9, "most": 1.1}
        found = self.figures([{**of_alone, "variant": "kolo", "median": 0.985}, {**of_alone, "variant": "PyTorch DDP", "median": 0.97},
                              {"what": "overhead", "variant": "kolo", "batch": 64, "amp": "bf16", "step_ms": 20.5,
                               "idle": {"us": 812.5, "number": 40.0, "longest": []}}])
        kolo = found["batch 64, bf16: a step without over a step with kolo, in one process"]
        self.assertEqual((kolo.value, kolo.verdict), (0.985, "MISSED"))
        self.assertIn("0.9 to 1.1; 20.5 ms", kolo.beside)
        self.assertIn("kolo: the device does nothing for 812.5 us", kolo.beside)
        self.assertEqual(found["batch 64, bf16: a step without over a step with PyTorch DDP, in one process"].verdict, "")

    def test_the_files_say_everything(self):
        launches = {"what": "launches a step", "variant": "kolo", "kernels": 20.0, "copies": 1.0, "fills": 0.0, "step_ms": 1.5,
                    "kolo_kernels": {"kolo_pack": 4.0}}
        results = [gpu_runner.Result("bench", "made up", "passed", 1.5, figures=[launches]),
                   gpu_runner.Result("nccl2", "ranks", "timed out", 240.0, "not over after 240 s"),
                   gpu_runner.Result("memcheck", "tool", "skipped", why="compute-sanitizer is not there")]
        with tempfile.TemporaryDirectory() as folder:
            text = gpu_report.write(pathlib.Path(folder), {"gpu": "none", "kolo": "v1"}, results)
            written = json.loads(pathlib.Path(f"{folder}/report.json").read_text(encoding="utf-8"))
            self.assertEqual(text, pathlib.Path(f"{folder}/report.md").read_text(encoding="utf-8"))
        self.assertEqual([each["status"] for each in written["parts"]], ["passed", "timed out", "skipped"])
        self.assertEqual(written["figures"][0]["value"], 20.0)
        for wanted in ("| kolo | v1 |", "1 of 3 parts passed, 1 failed, 1 were not done", "**timed out**: not over after 240 s",
                       "**skipped**: compute-sanitizer is not there", "kolo_pack"):
            self.assertIn(wanted, text)


@unittest.skipIf(PROGRAMS is None, "no programs were named")
class WithoutAGpu(unittest.TestCase):
    def test_it_fails_and_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            # A Python whose torch, or whatever has that name, sees no GPU.
            torch = pathlib.Path(folder) / "torch"
            torch.mkdir()
            (torch / "__init__.py").write_text("raise ImportError('stands in for a torch without a GPU')\n", encoding="utf-8")
            command = [str(ROOT / "script/gpu-check"), "--programs", PROGRAMS, "--python", sys.executable, "--out", f"{folder}/out"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                                  env={**os.environ, "PYTHONPATH": folder})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("FAILED: no GPU to test on", done.stderr)
        self.assertIn("stands in for a torch without a GPU", done.stderr)

    def test_a_test_program_fails_and_says_why(self):
        done = subprocess.run([f"{PROGRAMS}/gpu.kernels"], capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no GPU to test on", done.stdout)
        self.assertNotIn("[       OK ]", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
