"""The report as its readers see it: opened in a real browser, from a file, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from sil.experiment.replay import replay_all
from sil.experiment.replay_folder import render
from sil.experiment.run import REPORT, Definition, SiteChoice, run_experiment
from sil.outcome.jobs import JOBS, read_whole_jobs_csv
from sil.report import schedule_chart as chart
from sil.report.analysis import ALL_JOBS
from sil.report.page import Page, PageTable, Part, Section, write_page
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings import experiment_file
from sil.workers.executor import Inline, Listener
from sil.workload.lublin import Lublin
from tests import browser
from tests.builders import tiny_experiment
from tests.sil.runs import test_shared_experiment as shared

MARKS = ".mark-rect path, .mark-line path, .mark-area path, .mark-symbol path"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """One browser. Not every machine has chromium; CI installs it, and does not accept a skip."""
    missing = browser.what_is_missing()
    if missing:
        pytest.skip(missing)
    with browser.running(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def report(folder: Path, more: str = "", **changes: str) -> Path:
    path = tiny_experiment(folder, more, **changes)
    experiment = experiment_file.read_experiment(path)
    run_experiment(Definition(experiment, path), folder / "out", Inline(), SiteChoice(), Listener())
    return folder / "out" / REPORT


def charts(driver: webdriver.Chrome) -> list[int]:
    """How many marks with a shape each chart has."""
    script = """
        return [...document.querySelectorAll("[id^=chart-]")].map(chart =>
            [...chart.querySelectorAll(arguments[0])]
                .filter(mark => (mark.getAttribute("d") || "").length > 9).length)
    """
    return list(driver.execute_script(script, MARKS))


def test_a_grid_report_has_all_its_charts_and_no_console_error(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    page = report(tmp_path, '[grid]\n"workload.jobs" = [3, 6, 9, 12]', schedulers='["sjs", "pjs", "olb"]')
    browser.show(driver, page)
    assert browser.console_errors(driver) == []
    marks = charts(driver)
    assert len(marks) == 2 + 3 * 3  # the grid, and three charts at each of three points
    assert all(marks), marks
    text = driver.find_element("tag name", "body").text
    for expected in ("Number of jobs: 3, 6, 9, 12", "sjs, pjs, olb", "seed 7", "Mean turnaround", "Schedule"):
        assert expected in text


def test_options_of_a_plan_with_three_goals_are_as_wide_as_the_page(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    """Their last column was cut. What cannot be divided, like the limits of an interval, stays on a line."""
    goals = [f"Mean waiting time of jobs{where} (s)" for where in ("", " from east", " from west")]
    better = ["better by (s)", "better by (%)", "better by (s) per 1,000 of price"]
    head = [
        "",
        "rank",
        "option",
        "price",
        goals[0],
        *better,
        *goals[1:],
        "compared with today",
        "replications",
    ]
    row = ["A", "3 to 4", "meta-scheduler by predicted start", "90,000", "0.6691", "1,057 [-3,030, 5,138]"]
    row += ["+98.8 [-740.4, +100.0]", "0.64 [0.04, 1.54]", "0.7467", "0.4379", "unsettled", "1,024"]
    table = Part(table=PageTable(head, [row], "options"))
    write_page(tmp_path / "plan.html", Page("A plan", sections=[Section("Options", parts=[table])]))
    browser.show(driver, tmp_path / "plan.html")
    region = driver.find_element("css selector", "[aria-label=Options]")
    width, room = (int(region.get_property(of) or 0) for of in ("scrollWidth", "clientWidth"))
    assert width <= room, f"{width - room} of {width} px are cut"
    assert "[-740.4,\u00a0+100.0]" in (region.get_property("textContent") or "")


def test_the_gantt_chart_has_a_framed_bar_for_each_parallel_run(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    page = report(tmp_path, "mix = { short = 1 }", schedulers='["pjs"]', jobs="1")
    browser.show(driver, page)
    assert browser.console_errors(driver) == []
    framed = driver.find_elements("css selector", '.mark-rect path[stroke="#111"]')
    assert len(framed) == 1


def test_a_report_of_faults_only_says_so_and_has_no_empty_chart(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    page = report(tmp_path, schedulers='["tests.faulty:Raises"]')
    browser.show(driver, page)
    assert browser.console_errors(driver) == []
    assert all(charts(driver))
    assert "broke the rule raises-nothing" in driver.find_element("css selector", ".fault").text


def test_a_report_on_shared_nodes_has_all_its_charts(driver: webdriver.Chrome, tmp_path: Path) -> None:
    path = shared.written(tmp_path)
    shared.run(path, tmp_path / "out")
    browser.show(driver, tmp_path / "out" / REPORT)
    assert browser.console_errors(driver) == []
    marks = charts(driver)
    assert len(marks) == 2 + 1 + 2, (
        "predicted against real, and nodes over time, for each scheduler; turnaround"
    )
    assert sum(map(bool, marks)) >= 3, "those of the second scheduler are folded away"
    text = driver.find_element("tag name", "body").text
    for expected in ("Predicted turnaround", "aware cpu-cpu", "Nodes over time", "a job stops"):
        assert expected in text


def test_a_report_of_faults_only_on_shared_nodes_says_so(driver: webdriver.Chrome, tmp_path: Path) -> None:
    text = shared.EXPERIMENT.replace('"normal_easy", "uniform"', '"tests.faulty_on_nodes:Raises"')
    path = shared.written(tmp_path, text.replace('"aware", "blind mpl-mpl"', '"aware"'))
    shared.run(path, tmp_path / "out")
    browser.show(driver, tmp_path / "out" / REPORT)
    assert browser.console_errors(driver) == []
    assert "broke the rule raises-nothing" in driver.find_element("css selector", ".fault").text


def test_the_report_makes_no_network_request(tmp_path: Path) -> None:
    text = report(tmp_path).read_text()
    for loading in ('src="http', "src='http", "<link", "@import"):
        assert loading not in text


def replayed(folder: Path, jobs: int, reasons: bool) -> Path:
    log = Lublin().jobs(jobs, 32, np.random.default_rng(1)).at_load(0.9)
    schedulers = [resolve("fcfs"), resolve("easy")]
    replay_all(Replay(log, reasons=reasons), schedulers, folder, Inline(), ALL_JOBS, Listener())
    render(folder)
    return folder / REPORT


def drawn(driver: webdriver.Chrome) -> str:
    """What the chart of schedules shows after the last change of its window: cells, or a number of runs."""
    sleep(0.01)  # a change is seen later than the pointer's move
    chart = driver.find_element("id", "schedule-chart")
    WebDriverWait(driver, 30).until(lambda _: chart.get_dom_attribute("data-drawn"))
    return str(chart.get_dom_attribute("data-drawn"))


def schedule_canvas(driver: webdriver.Chrome) -> WebElement:
    canvas = driver.find_element("css selector", "#schedule-chart canvas")
    driver.execute_script("arguments[0].scrollIntoView()", canvas)
    return canvas


def test_a_schedule_has_a_rectangle_for_each_run_and_its_facts(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    browser.show(driver, replayed(tmp_path, 200, reasons=True))
    assert browser.console_errors(driver) == []
    rectangles = [
        sum(len(held.split()) for held in read_whole_jobs_csv(tmp_path / name / JOBS)["allocated_resources"])
        for name in ("fcfs", "easy")
    ]
    assert drawn(driver) == ", ".join(f"{n} runs" for n in rectangles)
    canvas, found = schedule_canvas(driver), []
    for across in range(-300, 300, 25):
        ActionChains(driver, duration=10).move_to_element_with_offset(canvas, across, -150).perform()
        sleep(0.03)
        found.append(driver.find_element("id", "schedule-facts").text)
    assert any("Job: " in text and "Estimate: " in text for text in found), found
    assert any("Why it waited: " in text for text in found), found
    assert browser.console_errors(driver) == []


@pytest.mark.long
def test_the_schedules_of_a_long_log_are_cells_until_the_reader_zooms_in(
    driver: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chart, "MAX_RECTANGLES", 60)
    browser.show(driver, replayed(tmp_path, 1_000, reasons=False))
    assert drawn(driver) == "cells, cells"
    canvas = schedule_canvas(driver)
    pointer, whole = ScrollOrigin.from_element(canvas, 0, -150), canvas.screenshot_as_png
    for _ in range(20):
        zoom = ActionChains(driver).key_down(Keys.CONTROL).scroll_from_origin(pointer, 0, -300)
        zoom.key_up(Keys.CONTROL).perform()
        if drawn(driver).count("runs") == 2:
            break
    else:
        pytest.fail(drawn(driver))
    in_time = drawn(driver)
    zoom = ActionChains(driver).key_down(Keys.SHIFT).scroll_from_origin(pointer, 0, -300)
    zoom.key_up(Keys.SHIFT).perform()
    assert drawn(driver) != in_time, "some runs are on other processors"
    ActionChains(driver).move_to_element_with_offset(canvas, 0, -150).double_click().perform()
    assert drawn(driver) == "cells, cells"
    assert canvas.screenshot_as_png == whole
    Select(driver.find_element("css selector", "#schedule-colour select")).select_by_visible_text("size")
    assert drawn(driver) == "cells, cells"
    assert canvas.screenshot_as_png != whole
    assert browser.console_errors(driver) == []


def test_a_window_drawn_over_time_is_that_of_the_schedules(driver: webdriver.Chrome, tmp_path: Path) -> None:
    browser.show(driver, replayed(tmp_path, 300, reasons=False))
    assert all(charts(driver)), charts(driver)
    whole = drawn(driver)
    chart = driver.find_element("css selector", "#chart-over-time svg")
    driver.execute_script("arguments[0].scrollIntoView()", chart)
    lowest = ActionChains(driver).move_to_element_with_offset(chart, -150, chart.rect["height"] // 2 - 70)
    lowest.click_and_hold().move_by_offset(60, 0).release().perform()
    WebDriverWait(driver, 30).until(lambda _: drawn(driver) != whole)
    shown = [int(text.partition(" ")[0]) for text in drawn(driver).split(", ")]
    assert all(0 < n < int(text.partition(" ")[0]) for n, text in zip(shown, whole.split(", "), strict=True))
    assert browser.console_errors(driver) == []
