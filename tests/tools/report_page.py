#!/usr/bin/env python3
"""The report of kolo scaling in a browser without a network: report_page.py WRITE_REPORT [--picture FILE [RESULTS]]

WRITE_REPORT is the program that writes a page. With --picture, no test runs: FILE becomes a
picture of the report of RESULTS (default: generated results). Ends with 77, which ctest takes for "skipped", if no browser is installed."""
import json
import pathlib
import subprocess
import sys
import tempfile

from browser import Browser, find_browser
from report_results import PARTS, hostile, make_results, many_rows, without_chance
from small_png import small_png

LAPTOP = (1440, 900)
NARROW = (400, 800)
CHARTS = """Object.fromEntries(Object.values(Chart.instances).map((chart) => [chart.canvas.closest("section").id, {
  labels: chart.data.labels, color: chart.options.color,
  datasets: chart.data.datasets.map(({ label, data, intervals, texts, backgroundColor }) =>
    ({ label, data, intervals, texts, backgroundColor })),
  inked: chart.canvas.toDataURL() !== Object.assign(document.createElement("canvas"),
    { width: chart.canvas.width, height: chart.canvas.height }).toDataURL() }]))"""
NEXT_FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
SHOWN = """[...document.querySelectorAll("#advice li")].map((item) => [item.textContent, item.getBoundingClientRect().bottom])"""


class Pages:
    def __init__(self, writer, folder):
        self.writer, self.folder, self.count = writer, folder, 0

    def write(self, *results):
        """The address of the page of `results`, or of the page that compares two."""
        self.count += 1
        files = []
        for number, each in enumerate(results):
            files.append(self.folder / f"{self.count}-{number}.json")
            files[-1].write_text(json.dumps(each))
        page = self.folder / f"{self.count}.html"
        subprocess.run([self.writer, *files, page], check=True)
        return page.as_uri()


def complaints(browser):
    """Errors of the page, and what it has loaded from elsewhere."""
    for method, params in browser.events:
        if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith("file:"):
            yield f"loads {params['request']['url']}"
        if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening") or (
                method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning")):
            yield f"{method}: {params}"


def open_page(browser, url, size=LAPTOP, theme="light"):
    browser.theme(theme)
    browser.size(*size)
    browser.open(url)
    found = list(complaints(browser))
    assert not found, (url, theme, found)
    width = browser.evaluate("document.documentElement.scrollWidth")
    assert width <= size[0], f"{url}: {width} pixels wide in a window of {size[0]}"


def percent(interval):
    return {end: None if interval[end] is None else 100 * interval[end] for end in ("value", "low", "high")}


def expected_efficiency(results):
    """{label: [(ranks, interval in %)]} of the series with more than one rank."""
    series = {}
    for row in results["rows"]:
        if "efficiency_to_one_rank" not in row:
            continue
        program = row["variant"] if "peer" in row else "kolo"
        group = f"emulated hosts, {row['rate']}" if row["hosts"] else "this host"
        one = (1, {"value": 100, "low": 100, "high": 100})
        series.setdefault(f"{program}, {group}", [one]).append((row["ranks"], percent(row["efficiency_to_one_rank"])))
    return series


def check_data(charts, results):
    """Each chart shows the numbers of results.json."""
    shown = {each["label"]: [(point["x"], interval) for point, interval in zip(each["data"], each["intervals"])]
             for each in charts["efficiency"]["datasets"] if each["label"] != "ideal"}
    assert shown == expected_efficiency(results), shown
    for each in charts["efficiency"]["datasets"]:
        assert each["label"] == "ideal" or [point["y"] for point in each["data"]] == [
            interval["value"] for interval in each["intervals"]], each

    rows = [row for row in results["rows"] if "peer" not in row]
    assert charts["parts"]["labels"] == [row["name"] + (f", {row['variant']}" if row["variant"] else "") for row in rows]
    expected = {part: [row["parts"][part] for row in rows] for part in PARTS}
    alone = {row["name"]: row["parts"]["backward_ms"] for row in rows if row["variant"]}
    slowed = [max(0, row["parts"]["backward_ms"] - alone.get(row["name"], row["parts"]["backward_ms"])) for row in rows]
    expected["backward_ms"] = [all - more for all, more in zip(expected["backward_ms"], slowed)]
    columns = list(expected.values())
    columns.insert(list(expected).index("backward_ms") + 1, slowed)
    for dataset, column in zip(charts["parts"]["datasets"], columns, strict=True):
        assert all(abs(a - b) < 1e-9 for a, b in zip(dataset["data"], column, strict=True)), (dataset, column)
    assert charts["parts"]["datasets"][-1]["intervals"] == [row["step_ms"] for row in rows]

    counts = [row["name"] for row in rows if not row["variant"]]
    assert charts["peers"]["labels"] == counts, charts["peers"]["labels"]
    for dataset in charts["peers"]["datasets"]:
        steps = [row["step_ms"] for row in results["rows"]
                 if (row["variant"] if "peer" in row else "kolo" if not row["variant"] else None) == dataset["label"]]
        assert dataset["intervals"] == steps and dataset["data"] == [step["value"] for step in steps], dataset
        assert all(dataset["texts"]), dataset
    assert all(chart["inked"] for chart in charts.values()), "a chart is empty"


def check_full_page(browser, pages):
    results = make_results()
    url = pages.write(results)
    colors = {}
    for theme in ("light", "dark"):
        open_page(browser, url, NARROW, theme)
        open_page(browser, url, LAPTOP, theme)
        charts = browser.evaluate(CHARTS)
        check_data(charts, results)
        colors[theme] = (charts["parts"]["color"], browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        shown = browser.evaluate(SHOWN)
        assert len(shown) >= 3 and all(bottom <= LAPTOP[1] for _, bottom in shown), shown
        for card in ("efficiency", "parts", "peers", "slowest"):
            bottom = browser.evaluate(f"document.getElementById('{card}').getBoundingClientRect().bottom")
            assert bottom <= LAPTOP[1], f"{card} ends at {bottom}"
    assert colors["light"][0] != colors["dark"][0] and colors["light"][1] != colors["dark"][1], colors
    browser.theme("light")
    browser.evaluate(NEXT_FRAME)
    assert browser.evaluate(CHARTS)["parts"]["color"] == colors["light"][0], "the charts keep the colours of the other theme"


def check_print(browser, pages):
    """In dark mode the printed text is dark, and the charts are restored after printing."""
    open_page(browser, pages.write(make_results()), theme="dark")
    browser.evaluate("addEventListener('beforeprint', () => { window.printed = Object.values(Chart.instances)[0].options.color; })")
    before = browser.evaluate(CHARTS)["parts"]["color"]
    assert browser.pdf().startswith(b"%PDF")
    printed = browser.evaluate("window.printed")
    assert printed and printed != before, (printed, before)
    assert browser.evaluate(CHARTS)["parts"]["color"] == before
    found = list(complaints(browser))
    assert not found, found


def check_without_scripts(browser, pages):
    """The sentences and the table are HTML, and nothing is empty."""
    url = pages.write(make_results())
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    open_page(browser, url)
    assert browser.evaluate(SHOWN), "no sentence"
    assert browser.evaluate("document.querySelectorAll('#rows tbody tr').length") == len(make_results()["rows"])
    assert browser.evaluate("[...document.querySelectorAll('canvas')].every((canvas) => canvas.offsetParent === null)")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def check_other_results(browser, pages):
    interrupted = make_results()
    interrupted["rows"] = interrupted["rows"][6:]  # not the row with one rank
    cases = {"no peers": make_results(peers=()), "one rank": make_results(counts=((1, 0, ""),), peers=()),
             "no rows": make_results(counts=()), "unknown chance": without_chance(make_results()),
             "interrupted": interrupted, "many rows": many_rows(), "hostile texts": hostile()}
    expected = {"no peers": {"efficiency", "parts"}, "one rank": {"efficiency", "parts"}, "no rows": set(),
                "interrupted": {"efficiency", "parts", "peers"}, "many rows": {"efficiency", "parts"}}
    for name, results in cases.items():
        url = pages.write(results)
        for size in (NARROW, LAPTOP):
            open_page(browser, url, size)
            charts = browser.evaluate(CHARTS)
            assert charts.keys() == expected.get(name, {"efficiency", "parts", "peers"}), (name, charts.keys())
            assert all(chart["inked"] for chart in charts.values()), name
    url = pages.write(many_rows())
    open_page(browser, url)
    assert len(browser.evaluate(CHARTS)["efficiency"]["datasets"][0]["data"]) == 64


def check_comparison(browser, pages):
    before, after = make_results(), make_results()
    for row in after["rows"]:
        row["runs"] = [[1.1 * step for step in run] for run in row["runs"]]
        row["step_ms"] = {end: 1.1 * value for end, value in row["step_ms"].items()}
    url = pages.write(before, after)
    for size in (NARROW, LAPTOP):
        for theme in ("light", "dark"):
            open_page(browser, url, size, theme)
            charts = browser.evaluate(CHARTS)
            assert [each["label"] for each in charts["changes"]["datasets"]] == ["before", "after"]
            for dataset, results in zip(charts["changes"]["datasets"], (before, after)):
                assert dataset["data"] == [row["step_ms"]["value"] for row in results["rows"]], dataset
            assert charts["changes"]["inked"]


def main(writer, *words):
    program = find_browser()
    if program is None:
        print("skipped: no browser is installed (run script/setup --browser)")
        return 77
    with tempfile.TemporaryDirectory(prefix="kolo-report-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        pages = Pages(writer, folder)
        with Browser(program, folder) as browser:
            if words[:1] == ("--picture",):
                results = json.loads(pathlib.Path(words[2]).read_text()) if len(words) > 2 else make_results()
                open_page(browser, pages.write(results))
                pathlib.Path(words[1]).write_bytes(small_png(browser.picture()))
                return 0
            for check in (check_full_page, check_print, check_without_scripts, check_other_results, check_comparison):
                check(browser, pages)
                print(f"{check.__name__}: fine", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
