"""The page of a report in a real browser."""

import io
import shutil
import tempfile
import time

import numpy as np
import pytest

pytest.importorskip("plotly", reason="needs mpda[report]")
pytest.importorskip("matplotlib", reason="needs mpda[report]")
pytest.importorskip("selenium", reason="needs selenium")

from PIL import Image  # comes with matplotlib
from selenium import webdriver
from selenium.webdriver.support.select import Select

from mpda.report import write_page
from report_cases import digits_results, wine_results

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)
# WebGL by software, where there is no graphics card.
SPACE = "--use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader"
EVIL = '</script><img src=x onerror="document.title=1">'


def started(flags):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    folder = tempfile.mkdtemp(prefix="mpda-browser-")
    for flag in (*FLAGS.split(), *flags.split(), f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)), folder


@pytest.fixture(scope="module")
def browser():
    found, folder = started(SPACE)
    yield found
    found.quit()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    wine = wine_results()
    evil = {**wine, "embedding": {**wine["embedding"], "labels": [EVIL, "b", "c"]}, "title": EVIL}
    many = {**wine, "embedding": dict(wine["embedding"])}
    rng = np.random.default_rng(0)
    many["embedding"] |= {"points": rng.normal(size=(4000, 2)), "codes": rng.integers(0, 3, 4000)}
    many["embedding"] |= {"rows": None, "wrong": None}
    written = {"wine": wine, "digits": digits_results(), "evil": evil, "many": many}
    return {name: write_page(each, folder / f"{name}.html") for name, each in written.items()}


def opened(browser, path, width=1200):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get_log("browser")  # of the page before
    browser.get(path.as_uri())
    browser.execute_script("window.localStorage.clear()")
    until(browser, "return document.getElementById('embedding-plane').data !== undefined")


def until(browser, script, seconds=20.0):
    """Wait until a script says true; what is slow is the machine, not the page."""
    end = time.monotonic() + seconds
    while not browser.execute_script(script):
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.05)


def texts(selector):
    """A script that returns the texts of elements."""
    return f"return Array.from(document.querySelectorAll({selector!r})).map(e => e.textContent)"


def faults(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def pixels(browser):
    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    return np.asarray(picture, dtype=float)


def test_page_opens_without_errors_and_asks_for_nothing(browser, pages):
    opened(browser, pages["digits"])
    count = len(browser.find_elements("css selector", ".chart:not([hidden])"))
    browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    until(
        browser,
        "return Array.from(document.querySelectorAll('.chart:not([hidden])'))"
        f".filter(each => each.querySelector('.main-svg')).length == {count}",
    )
    assert faults(browser) == []
    asked = browser.execute_script(
        "return performance.getEntriesByType('resource').map(each => each.name)"
    )
    assert [name for name in asked if not name.startswith(("data:", "blob:"))] == []


def test_a_legend_click_hides_a_class(browser, pages):
    opened(browser, pages["wine"])
    hidden = "return document.getElementById('embedding-plane').data.map(t => t.visible)"
    assert browser.execute_script(hidden) == [None, None, None]
    toggle = "#embedding-plane .legend .traces:nth-child(2) .legendtoggle"
    until(browser, f"return document.querySelector({toggle!r}) !== null")
    webdriver.ActionChains(browser).click(browser.find_element("css selector", toggle)).perform()
    until(
        browser,
        "return document.getElementById('embedding-plane').data[1].visible === 'legendonly'",
    )
    assert browser.execute_script(hidden)[0::2] == [None, None]
    # It stays hidden when the theme changes.
    browser.find_element("id", "theme").click()
    assert browser.execute_script(
        "return document.getElementById('embedding-plane')._fullData[1].visible"
    ) == ("legendonly")


def test_points_tell_of_themselves_and_components_can_be_chosen(browser, pages):
    opened(browser, pages["wine"])
    text = texts("#embedding-plane .hovertext") + ".join()"
    browser.execute_script("Plotly.Fx.hover('embedding-plane', [{curveNumber: 1, pointNumber: 0}])")
    until(browser, f"{text}.length > 0")
    said = browser.execute_script(text)
    assert "Barolo" in said
    assert "row 0" in said
    assert "1-NN gets it right" in said
    shown = "return document.getElementById('component-0').data[0].x[0]"
    browser.execute_script("document.getElementById('component-0').scrollIntoView()")
    until(browser, "return document.getElementById('component-0').data !== undefined")
    weights = wine_results()["model"]["weights"]
    largest = [max(row, key=abs) for row in weights]
    assert browser.execute_script(shown) == pytest.approx(largest[0], rel=1e-4)
    Select(browser.find_element("id", "component-choice")).select_by_index(2)
    until(browser, f"{shown} !== {float(f'{largest[0]:.5g}')}")
    assert browser.execute_script(shown) == pytest.approx(largest[2], rel=1e-4)


def test_views_in_two_and_three_dimensions(browser, pages):
    opened(browser, pages["wine"])
    plane, space = (browser.find_element("id", f"embedding-{kind}") for kind in ("plane", "space"))
    assert plane.is_displayed()
    assert not space.is_displayed()
    buttons = browser.find_elements("css selector", ".switch button")
    buttons[1].click()
    until(browser, "return document.querySelector('#embedding-space canvas') !== null")
    assert space.is_displayed()
    assert not plane.is_displayed()
    assert buttons[1].get_attribute("aria-pressed") == "true"
    assert not browser.find_element("id", "no-space").is_displayed()
    kinds = browser.execute_script(
        "return document.getElementById('embedding-space').data.map(t => t.type)"
    )
    assert kinds == ["scatter3d"] * 3
    # No button sends the data away.
    until(browser, "return document.querySelector('#embedding-space .modebar-btn') !== null")
    titles = browser.execute_script(
        "return Array.from(document.querySelectorAll('.modebar-btn')).map(e => e.dataset.title)"
    )
    assert any("Download" in title for title in titles)
    assert not [title for title in titles if "loud" in title or "hart" in title or "hare" in title]
    buttons[0].click()
    assert plane.is_displayed()
    assert faults(browser) == []


def test_light_and_dark(browser, pages):
    opened(browser, pages["wine"])
    ink = "return document.getElementById('embedding-plane')._fullLayout.font.color"
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    until(browser, "return document.documentElement.dataset.theme === 'dark'")
    dark, dark_ink = pixels(browser), browser.execute_script(ink)
    browser.find_element("id", "theme").click()
    assert browser.execute_script("return document.documentElement.dataset.theme") == "light"
    light, light_ink = pixels(browser), browser.execute_script(ink)
    assert np.median(dark) < 50
    assert np.median(light) > 200
    assert dark_ink != light_ink
    # Not blank: marks of three colours on paper.
    assert len(np.unique(light.reshape(-1, 3), axis=0)) > 200
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_phone_needs_no_sideways_scrolling(browser, pages):
    opened(browser, pages["digits"], width=400)
    browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    until(browser, "return document.querySelector('#patch-chart .main-svg') !== null")
    width = "return document.documentElement.scrollWidth"
    assert browser.execute_script(width) <= 400
    beyond = browser.execute_script(
        "return Array.from(document.querySelectorAll('section'))"
        ".filter(each => each.getBoundingClientRect().right > 400).length"
    )
    assert beyond == 0
    # Turned, or on a larger screen, figures are as high as they would have been there.
    height = "return document.getElementById('embedding-plane')._fullLayout.height"
    assert browser.execute_script(height) == 430
    metrics = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    until(browser, f"{height} === 560")
    time.sleep(0.3)  # plotly answers a resize late
    assert browser.execute_script(height) == 560


def test_text_from_the_data_does_nothing(browser, pages):
    opened(browser, pages["evil"])
    assert browser.title == EVIL
    names = browser.execute_script(texts("#embedding-plane .legendtext"))
    assert names[0].startswith("</script><img")
    assert browser.find_elements("css selector", "img") == []
    assert faults(browser) == []


def test_many_points_are_drawn_by_webgl(browser, pages):
    opened(browser, pages["many"])
    until(browser, "return document.querySelector('#embedding-plane canvas') !== null")
    assert faults(browser) == []


def test_without_webgl_the_page_says_so(pages):
    without, folder = started("--disable-3d-apis")
    try:
        opened(without, pages["wine"])
        assert without.find_element("id", "no-space").is_displayed()
        assert not without.find_elements("css selector", ".switch button")[1].is_enabled()
        opened(without, pages["many"])
        kinds = without.execute_script(
            "return document.getElementById('embedding-plane').data.map(t => t.type)"
        )
        assert kinds == ["scatter"] * 3
        assert faults(without) == []
    finally:
        without.quit()
        shutil.rmtree(folder, ignore_errors=True)
