"""The report page in a real browser."""

import copy
import io
import shutil
import time

import numpy as np
import pytest

pytest.importorskip("plotly", reason="needs mpda[report]")
pytest.importorskip("matplotlib", reason="needs mpda[report]")
pytest.importorskip("selenium", reason="needs selenium")

from PIL import Image  # comes with matplotlib
from selenium import webdriver

from mpda.report import write_page
from report_cases import digits_results, wine_results

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars "
    # Clicks go to where an element is at once, so the page must not glide there.
    "--force-prefers-reduced-motion"
)
# WebGL in software, for machines without a graphics card.
WEBGL = "--use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader"
EVIL = '</script><img src=x onerror="document.title=1">'
PLANE = "document.getElementById('embedding-plane')"


@pytest.fixture(scope="module", params=[WEBGL])
def browser(request, tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = f"--user-data-dir={tmp_path_factory.mktemp('profile')}"
    for flag in (*FLAGS.split(), *request.param.split(), profile):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)) as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    evil, many = copy.deepcopy(wine_results()), copy.deepcopy(wine_results())
    evil["embedding"]["labels"][0] = evil["title"] = EVIL
    rng = np.random.default_rng(0)
    many["embedding"] |= {"points": rng.normal(size=(4000, 2)), "codes": rng.integers(0, 3, 4000)}
    many["embedding"] |= {"rows": None, "wrong": None}
    results = {"wine": wine_results(), "digits": digits_results(), "evil": evil, "many": many}
    return {name: write_page(value, folder / f"{name}.html") for name, value in results.items()}


def open_page(browser, path, width=1200):
    set_width(browser, width)
    browser.get_log("browser")  # discards the log of the page before
    browser.get(path.as_uri())
    browser.execute_script("window.localStorage.clear()")
    wait_until(browser, f"return {PLANE}.data !== undefined")


def set_width(browser, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def wait_until(browser, script, seconds=20.0):
    end = time.monotonic() + seconds
    while not browser.execute_script(script):
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.05)


def read_texts(browser, selector):
    script = f"return Array.from(document.querySelectorAll({selector!r})).map(e => e.textContent)"
    return browser.execute_script(script)


def severe_messages(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def take_screenshot(browser):
    image = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    return np.asarray(image, dtype=float)


def test_page_opens_without_errors_and_requests(browser, pages):
    open_page(browser, pages["digits"])
    n_charts = len(browser.find_elements("css selector", ".chart:not([hidden])"))
    browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    charts = "Array.from(document.querySelectorAll('.chart:not([hidden])'))"
    drawn = f"{charts}.filter(e => e.querySelector('.main-svg'))"
    wait_until(browser, f"return {drawn}.length == {n_charts}")
    assert severe_messages(browser) == []
    requests = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    names = browser.execute_script(requests)
    assert [name for name in names if not name.startswith(("data:", "blob:"))] == []


def test_legend_hides_a_class_and_theme_keeps_it_hidden(browser, pages):
    open_page(browser, pages["wine"])
    toggle = "#embedding-plane .legend .traces:nth-child(2) .legendtoggle"
    wait_until(browser, f"return document.querySelector({toggle!r}) !== null")
    webdriver.ActionChains(browser).click(browser.find_element("css selector", toggle)).perform()
    wait_until(browser, f"return {PLANE}.data[1].visible === 'legendonly'")
    browser.find_element("id", "theme").click()
    assert browser.execute_script(f"return {PLANE}._fullData[1].visible") == "legendonly"


def test_hover_text_names_class_and_prediction(browser, pages):
    open_page(browser, pages["wine"])
    browser.execute_script("Plotly.Fx.hover('embedding-plane', [{curveNumber: 1, pointNumber: 0}])")
    selector = "#embedding-plane .hovertext"
    wait_until(browser, f"return document.querySelector({selector!r}) !== null")
    text = "".join(read_texts(browser, selector))
    assert "Barolo" in text
    assert "1-NN gets it right" in text


def test_view_in_three_dimensions_has_no_upload_button(browser, pages):
    open_page(browser, pages["wine"])
    plane, space = (browser.find_element("id", f"embedding-{kind}") for kind in ("plane", "space"))
    assert (plane.is_displayed(), space.is_displayed()) == (True, False)
    buttons = browser.find_elements("css selector", ".switch button")
    buttons[1].click()
    wait_until(browser, "return document.querySelector('#embedding-space canvas') !== null")
    assert (plane.is_displayed(), space.is_displayed()) == (False, True)
    assert buttons[1].get_attribute("aria-pressed") == "true"
    assert not browser.find_element("id", "no-space").is_displayed()
    wait_until(browser, "return document.querySelector('#embedding-space .modebar-btn') !== null")
    selector = "return Array.from(document.querySelectorAll('.modebar-btn'))"
    titles = browser.execute_script(f"{selector}.map(e => e.dataset.title)")
    assert any("Download" in title for title in titles)
    assert not [title for title in titles if "loud" in title or "hart" in title or "hare" in title]
    assert severe_messages(browser) == []


def test_themes_follow_the_system_and_the_button(browser, pages):
    open_page(browser, pages["wine"])
    dark_media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark_media)
    wait_until(browser, "return document.documentElement.dataset.theme === 'dark'")
    ink = f"return {PLANE}._fullLayout.font.color"
    dark, dark_ink = take_screenshot(browser), browser.execute_script(ink)
    browser.find_element("id", "theme").click()
    light, light_ink = take_screenshot(browser), browser.execute_script(ink)
    assert np.median(dark) < 50
    assert np.median(light) > 200
    assert dark_ink != light_ink
    assert len(np.unique(light.reshape(-1, 3), axis=0)) > 200  # the chart is not blank
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_page_fits_on_a_phone_and_grows_with_the_screen(browser, pages):
    open_page(browser, pages["digits"], width=400)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    height = f"return {PLANE}._fullLayout.height"
    assert browser.execute_script(height) == 430
    set_width(browser, 1200)
    wait_until(browser, f"{height} === 560")


def test_text_from_the_data_is_not_executed(browser, pages):
    open_page(browser, pages["evil"])
    assert browser.title == EVIL
    names = read_texts(browser, "#embedding-plane .legendtext")
    assert names[0].startswith("</script><img")
    assert browser.find_elements("css selector", "img") == []
    assert severe_messages(browser) == []


@pytest.mark.parametrize("browser", ["--disable-3d-apis"], indirect=True)
def test_page_without_webgl_says_so_and_draws_points(browser, pages):
    open_page(browser, pages["wine"])
    assert browser.find_element("id", "no-space").is_displayed()
    assert not browser.find_elements("css selector", ".switch button")[1].is_enabled()
    open_page(browser, pages["many"])
    assert browser.execute_script(f"return {PLANE}.data.map(t => t.type)") == ["scatter"] * 3
    assert severe_messages(browser) == []
