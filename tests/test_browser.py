"""The report page in a real browser."""

import base64
import copy
import io
import shutil
import time

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason="needs mpda[report]")
pytest.importorskip("selenium", reason="needs selenium")

from PIL import Image  # comes with matplotlib
from selenium import webdriver
from selenium.webdriver.common.keys import Keys
from sklearn.datasets import load_digits, load_wine

from command_calls import call
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
EVIL = '</script><img src=x onerror="document.title=1">'
VIEW = "document.getElementById('scatter').view"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = f"--user-data-dir={tmp_path_factory.mktemp('profile')}"
    for flag in (*FLAGS.split(), profile):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER)) as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    evil, many = copy.deepcopy(wine_results()), copy.deepcopy(wine_results())
    evil["embedding"]["labels"][0] = evil["title"] = EVIL
    evil["embedding"]["predicted"]["labels"][0] = EVIL
    evil["partition"]["pictures"][0]["label"] = EVIL
    evil["embedding"]["hover"]["features"][0]["name"] = EVIL
    rng = np.random.default_rng(0)
    many["embedding"] = {
        "points": rng.normal(size=(3000, 2)),
        "codes": np.arange(3000) % 300,
        "labels": [f"class {i}" for i in range(300)],
    }
    (problem,) = many["comparison"]["problems"]
    row, curve = problem["rows"][-1], problem["curves"][-1]
    names = [f"long name of method {i}" for i in range(16)]
    problem = {
        "rows": [{**row, "method": name} for name in names],
        "curves": [{**curve, "method": name} for name in names],
    }
    many["comparison"]["problems"] = [{**problem, "name": f"problem {i}"} for i in range(2)]
    results = {"wine": wine_results(), "digits": digits_results(), "evil": evil, "many": many}
    return {name: write_page(value, folder / f"{name}.html") for name, value in results.items()}


@pytest.fixture(scope="module")
def fitted_pages(tmp_path_factory):
    """Pages that the command writes: digits as images, wine with the name of each bottle."""
    folder = tmp_path_factory.mktemp("fitted")
    digits, wine = load_digits(as_frame=True), load_wine(as_frame=True)
    digits.data.assign(digit=digits.target)[::4].to_csv(folder / "digits.csv", index=False)
    bottles = [f"bottle {i:03d}" for i in range(178)]
    wine.data.assign(cultivar=wine.target, bottle=bottles).to_csv(folder / "wine.csv", index=False)
    codes = np.arange(120) % 20
    X = np.eye(20)[codes] + 0.3 * np.random.default_rng(0).normal(size=(120, 20))
    species = [f"species number {code}" for code in codes]
    table = pd.DataFrame(X).add_prefix("x").assign(species=species)
    table.to_csv(folder / "species.csv", index=False)
    options = {
        "digits": ("digit", "--image", "8x8"),
        "wine": ("cultivar", "--text", "bottle"),
        "species": ("species",),
    }
    pages = {}
    for name, (label, *words) in options.items():
        pages[name] = folder / f"{name}.html"
        words += ["--folds", "2", "--out", str(folder / f"{name}.mpda"), "--quiet"]
        page = ["--report", str(pages[name])]
        assert call("fit", str(folder / f"{name}.csv"), "--label", label, *words, *page) == 0
    return pages


def open_page(browser, path, width=1200):
    set_width(browser, width)
    browser.get_log("browser")  # discards the log of the page before
    browser.get(path.as_uri())
    browser.execute_script("window.localStorage.clear()")
    wait_until(browser, f"return {VIEW} !== undefined")


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


def click_button(browser, text, within="body"):
    """Click the first visible button with this text."""
    buttons = browser.find_elements("css selector", f"{within} button")
    next(button for button in buttons if button.text == text).click()


def drag(browser, *offsets):
    """Drag through points of the plot, as shares of its size from its centre."""
    canvas = browser.find_element("css selector", "#scatter canvas")
    width, height = canvas.size["width"], canvas.size["height"]
    points = [(int(x * width), int(y * height)) for x, y in offsets]
    actions = webdriver.ActionChains(browser, duration=20)
    actions.move_to_element_with_offset(canvas, *points[0]).click_and_hold()
    for point in points[1:]:
        actions.move_to_element_with_offset(canvas, *point)
    actions.release().perform()


def hover(browser, index):
    """Move the mouse to a sample and return the text of the tooltip."""
    canvas = browser.find_element("css selector", "#scatter canvas")
    script = f"const v = {VIEW}; return [v.screen.x[{index}], v.screen.y[{index}]]"
    x, y = browser.execute_script(script)
    offset = int(x - canvas.size["width"] / 2), int(y - canvas.size["height"] / 2)
    browser.execute_script("document.getElementById('scatter').scrollIntoView()")
    webdriver.ActionChains(browser).move_to_element_with_offset(canvas, *offset).perform()
    wait_until(browser, "return !document.getElementById('tip').hidden")
    return browser.find_element("id", "tip").text


def press_keys(browser, *keys):
    browser.execute_script("document.querySelector('#scatter canvas').focus()")
    webdriver.ActionChains(browser).send_keys(*keys).perform()


def find_lonely_sample(browser):
    """Return a sample whose nearest neighbour on the screen is far away."""
    return browser.execute_script(
        f"const {{x, y}} = {VIEW}.screen; let best = 0, most = 0;"
        "x.forEach((_, i) => {"
        "  let least = Infinity;"
        "  x.forEach((_, j) => {"
        "    if (i !== j) least = Math.min(least, Math.hypot(x[i] - x[j], y[i] - y[j]));"
        "  });"
        "  if (least > most) [best, most] = [i, least];"
        "}); return best"
    )


def severe_messages(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def take_screenshot(browser):
    image = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    return np.asarray(image, dtype=float)


def test_page_opens_without_errors_and_requests(browser, pages):
    open_page(browser, pages["digits"])
    for selector in ("#scatter canvas", "#curve svg", "#patch-picture svg"):
        assert browser.find_elements("css selector", selector)
    assert severe_messages(browser) == []
    requests = "return performance.getEntriesByType('resource').map(entry => entry.name)"
    names = browser.execute_script(requests)
    assert [name for name in names if not name.startswith("data:")] == []


@pytest.mark.slow
def test_legend_hides_a_class_and_theme_keeps_it_hidden(browser, pages):
    open_page(browser, pages["wine"])
    entry = browser.find_elements("css selector", ".legend li button")[1]
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    browser.find_element("id", "theme").click()
    assert browser.execute_script(f"return {VIEW}.visible") == [True, False, True]
    webdriver.ActionChains(browser).double_click(entry).perform()
    assert browser.execute_script(f"return {VIEW}.visible") == [False, True, False]
    click_button(browser, "All", ".legend")
    assert browser.execute_script(f"return {VIEW}.visible") == [True, True, True]


@pytest.mark.slow
def test_ten_classes_differ_in_colour_and_mark_in_both_themes(browser, pages):
    open_page(browser, pages["digits"])
    codes = "Array.from({length: 10}, (_, i) => i)"
    script = f"return {codes}.map((i) => [mpda.color(i), mpda.mark(i)])"
    looks = [browser.execute_script(script)]
    browser.find_element("id", "theme").click()
    looks.append(browser.execute_script(script))
    for palette in looks:
        colors, marks = zip(*palette, strict=True)
        assert len(set(colors)) == len(set(marks)) == 10
    assert not {color for color, _ in looks[0]} & {color for color, _ in looks[1]}
    # The same marks are drawn in the plane, in space and in the legend.
    paths = "Array.from(document.querySelectorAll('.legend li path')).map(e => e.getAttribute('d'))"
    assert browser.execute_script(f"return {paths}") == [mark for _, mark in looks[0]]


@pytest.mark.slow
def test_legend_of_many_classes_scrolls_and_can_be_searched(browser, pages):
    open_page(browser, pages["many"])
    legend = browser.find_element("css selector", ".legend ul")
    heights = "return [arguments[0].clientHeight, arguments[0].scrollHeight]"
    visible, total = browser.execute_script(heights, legend)
    assert visible < 520 < total
    set_width(browser, 400)
    visible, total = browser.execute_script(heights, legend)
    assert visible < 210 < total
    assert browser.execute_script("return arguments[0].scrollWidth", legend) <= 368
    set_width(browser, 1200)
    field = browser.find_element("css selector", ".legend input")
    field.send_keys("class 17")
    entries = browser.find_elements("css selector", ".legend li")
    found = [i for i, entry in enumerate(entries) if entry.is_displayed()]
    assert found == [17, *range(170, 180)]
    click_button(browser, "Only found", ".legend")
    shown = browser.execute_script(f"return {VIEW}.visible")
    assert [i for i, on in enumerate(shown) if on] == found


@pytest.mark.slow
def test_hover_text_names_row_class_prediction_and_features(browser, pages):
    open_page(browser, pages["wine"])
    i = find_lonely_sample(browser)
    text = hover(browser, i)
    embedding = wine_results()["embedding"]
    label = embedding["labels"][embedding["codes"][i]]
    predicted = embedding["predicted"]
    lines = [f"row {embedding['rows'][i]}", f"class {label}"]
    lines.append(f"predicted {predicted['labels'][predicted['codes'][i]]}")
    for feature in embedding["hover"]["features"][:3]:
        value = feature["values"][i]
        lines.append(f"{feature['name']} {value:.4g}")
    assert text.splitlines()[: len(lines)] == lines
    # The reader chooses the features.
    browser.find_element("css selector", ".chooser summary").click()
    browser.find_elements("css selector", ".chooser input")[4].click()
    assert embedding["hover"]["features"][4]["name"] in hover(browser, i)


@pytest.mark.slow
def test_command_shows_texts_and_images_of_samples(browser, fitted_pages):
    open_page(browser, fitted_pages["wine"])
    i = find_lonely_sample(browser)
    row = browser.execute_script(f"return {VIEW}.data.rows[{i}]")
    assert f"bottle bottle {row - 1:03d}" in hover(browser, i)
    names = read_texts(browser, "#features th")
    assert "alcohol" in names
    assert "bottle" not in names
    open_page(browser, fitted_pages["digits"])
    hover(browser, i := find_lonely_sample(browser))
    row = browser.execute_script(f"return {VIEW}.data.rows[{i}]")
    pixels = browser.execute_script(
        "const c = document.querySelector('#tip canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const s = c.width / 8;"
        "return Array.from({length: 64}, (_, k) => {"
        "  const x = Math.floor((k % 8 + .5) * s), y = Math.floor((Math.floor(k / 8) + .5) * s);"
        "  return d[4 * (y * c.width + x)] })"
    )
    expected = load_digits().data[::4][row - 1] / 16
    np.testing.assert_allclose(np.array(pixels) / 255, expected, atol=0.05)


@pytest.mark.slow
def test_top_of_the_page_has_the_next_commands(browser, fitted_pages):
    open_page(browser, fitted_pages["wine"])
    advised, *commands = read_texts(browser, "#summary code")
    assert advised.endswith("--method lda")
    model = fitted_pages["wine"].with_suffix(".mpda")
    assert commands[0] == f"mpda predict {model} NEW.csv --out classes.csv"
    assert commands[1] == f"mpda evaluate {model} LABELLED.csv"
    assert read_texts(browser, "#model .reasons li")[0].startswith(
        "by cross-validation: MPDA errs on "
    )
    assert fitted_pages["wine"].stat().st_size < 2e6
    assert fitted_pages["digits"].stat().st_size < 2e6


@pytest.mark.slow
def test_components_are_chosen_and_named_by_method(browser, pages):
    open_page(browser, pages["wine"])
    menus = browser.find_elements("css selector", ".tools select")
    assert [menu.is_displayed() for menu in menus] == [True, True, False]
    options = [option.text for option in menus[0].find_elements("css selector", "option")]
    assert options == [f"MPDA {i}" for i in range(1, 6)]
    before = browser.execute_script(f"return Array.from({VIEW}.screen.x)")
    menus[0].find_elements("css selector", "option")[3].click()
    after = np.array(browser.execute_script(f"return Array.from({VIEW}.screen.x)"))
    fourth = np.array(wine_results()["embedding"]["points"])[:, 3]
    assert np.corrcoef(after, fourth)[0, 1] > 0.9999
    assert abs(np.corrcoef(before, fourth)[0, 1]) < 0.9


@pytest.mark.slow
def test_view_in_three_dimensions_turns_and_keeps_the_marks(browser, pages):
    open_page(browser, pages["wine"])
    browser.execute_script("document.getElementById('scatter').scrollIntoView()")
    click_button(browser, "3D", ".tools")
    positions = f"return Array.from({VIEW}.screen.x)"
    before = browser.execute_script(positions)
    drag(browser, (0, 0), (0.1, 0.05), (0.2, 0.05))
    after = browser.execute_script(positions)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) > 20
    assert browser.execute_script(f"return {VIEW}.paths.length") == 3
    assert take_screenshot(browser).std() > 5  # the chart is not blank
    assert severe_messages(browser) == []


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["Lasso", "Box"])
def test_selected_samples_are_listed(browser, pages, tool):
    open_page(browser, pages["wine"])
    browser.execute_script("document.getElementById('scatter').scrollIntoView()")
    click_button(browser, tool, ".tools")
    corners = [(-0.45, -0.45), (0.0, -0.45), (0.0, 0.45), (-0.45, 0.45)]
    drag(browser, *(corners if tool == "Lasso" else corners[::2]))
    x, y = (browser.execute_script(f"return Array.from({VIEW}.screen.{key})") for key in "xy")
    canvas = browser.find_element("css selector", "#scatter canvas")
    left, right = (0.05 * canvas.size["width"], 0.5 * canvas.size["width"])
    top, bottom = (0.05 * canvas.size["height"], 0.95 * canvas.size["height"])
    inside = {i for i in range(178) if left < x[i] < right - 1 and top < y[i] < bottom}
    listed = [int(text) for text in read_texts(browser, ".selection tbody th")]
    embedding = wine_results()["embedding"]
    assert inside - {row - 1 for row in listed} == set()
    assert len(listed) <= len(inside) + 2  # samples on the edge
    row = read_texts(browser, ".selection tbody tr:first-child > *")
    assert row[1] == embedding["labels"][embedding["codes"][listed[0] - 1]]
    assert f"{len(listed)} samples are selected" in read_texts(browser, ".selection h3")[0]
    click_button(browser, "Clear", ".selection")
    assert read_texts(browser, ".selection tr") == []


@pytest.mark.slow
def test_samples_are_reached_and_selected_by_keys(browser, pages):
    open_page(browser, pages["wine"])
    press_keys(browser, "nn")
    assert read_texts(browser, "#scatter [aria-live]")[0].startswith("row 2, class Barolo")
    press_keys(browser, Keys.ENTER)
    assert read_texts(browser, ".selection tbody th") == ["2"]
    window = browser.execute_script(f"return {VIEW}.window")
    press_keys(browser, "+", Keys.ARROW_RIGHT)
    assert browser.execute_script(f"return {VIEW}.window") != window
    press_keys(browser, "0", Keys.ESCAPE)
    assert browser.execute_script(f"return {VIEW}.window") == window
    assert read_texts(browser, ".selection tbody th") == []


@pytest.mark.slow
def test_controls_and_pictures_have_names_for_screen_readers(browser, pages):
    open_page(browser, pages["many"])
    script = (
        "return Array.from(document.querySelectorAll('button, select, input, canvas, [role=img]'))"
        ".filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() ||"
        "  (e.labels && e.labels.length && e.labels[0].textContent.trim())))"
        ".map((e) => e.outerHTML.slice(0, 80))"
    )
    assert browser.execute_script(script) == []
    canvas = browser.find_element("css selector", "#scatter canvas")
    assert canvas.get_attribute("aria-label").startswith("3,000 samples of 300 classes")
    keys = browser.find_element("id", canvas.get_attribute("aria-describedby")).text
    assert "n and p go to the next and previous sample" in keys


@pytest.mark.slow
def test_drag_zooms_and_double_click_resets(browser, pages):
    open_page(browser, pages["wine"])
    browser.execute_script("document.getElementById('scatter').scrollIntoView()")
    drag(browser, (-0.2, -0.2), (0.1, 0.1))
    low, high, *_ = browser.execute_script(f"return {VIEW}.window")
    assert 0.2 < high - low < 0.4
    canvas = browser.find_element("css selector", "#scatter canvas")
    webdriver.ActionChains(browser).double_click(canvas).perform()
    assert browser.execute_script(f"return {VIEW}.window") == [0, 1, 0, 1]


@pytest.mark.slow
def test_curves_show_values_and_hide_methods(browser, pages):
    open_page(browser, pages["wine"])
    curves = wine_results()["comparison"]["problems"][0]["curves"]
    browser.execute_script("document.querySelector('#curve svg').focus()")
    webdriver.ActionChains(browser).send_keys(Keys.ARROW_RIGHT * 2).perform()
    text = read_texts(browser, "#curve [aria-live]")[0]
    assert text.startswith("2 components, LDA: ")
    assert f"MPDA: {curves[2]['error'][1]:.2f} %" in text
    n_paths = len(browser.find_elements("css selector", "#curve > div path"))
    browser.find_elements("css selector", ".lines button")[0].click()
    assert len(browser.find_elements("css selector", "#curve > div path")) < n_paths


@pytest.mark.slow
def test_patches_are_shown_for_the_class_that_the_reader_chooses(browser, pages):
    open_page(browser, pages["wine"])
    classes = {entry["label"]: entry for entry in wine_results()["partition"]["classes"]}
    menu = browser.find_element("css selector", "#patch-picture select")
    options = menu.find_elements("css selector", "option")
    assert {option.text for option in options} == set(classes)
    for option in options:
        option.click()
        entry = classes[option.text]
        assert len(browser.find_elements("css selector", ".patch")) == entry["patches"]
        n_samples = len(browser.find_elements("css selector", ".patch circle"))
        assert n_samples == sum(entry["sizes"])
        assert f"Class {option.text}: " in read_texts(browser, "#patch-picture .how")[0]


@pytest.mark.slow
def test_themes_follow_the_system_and_the_button(browser, pages):
    open_page(browser, pages["wine"])
    dark_media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark_media)
    wait_until(browser, "return document.documentElement.dataset.theme === 'dark'")
    browser.execute_script("document.getElementById('scatter').scrollIntoView()")
    dark = take_screenshot(browser)
    browser.execute_script("document.getElementById('theme').click()")
    light = take_screenshot(browser)
    assert np.median(dark) < 50
    assert np.median(light) > 200
    assert len(np.unique(light.reshape(-1, 3), axis=0)) > 200  # the chart is not blank
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def find_clipped(browser):
    """Return the tables and boxes with commands whose content is wider than they are."""
    return browser.execute_script(
        "document.querySelectorAll('details').forEach((e) => { e.open = true; });"
        "return Array.from(document.querySelectorAll('.scroll, .pairs, .bars, pre, .figure'))"
        ".filter((e) => e.scrollWidth > e.clientWidth + 1 ||"
        "  e.getBoundingClientRect().right > document.documentElement.clientWidth)"
        ".map((e) => e.className + ' ' + e.textContent.slice(0, 60))"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wine", "digits", "many"])
def test_nothing_is_clipped_on_a_phone_and_on_paper(browser, pages, name):
    open_page(browser, pages[name], width=400)
    if name != "many":
        press_keys(browser, "n", Keys.ENTER)
    browser.execute_script(  # the longest time of a fit: it must not decide whether tables fit
        "document.querySelectorAll('.methods td:last-child')"
        ".forEach((e) => { e.textContent = e.textContent.replace(/\\d+(\\s)ms/, '905$1ms'); })"
    )
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
    assert find_clipped(browser) == []
    if name != "many":  # tables of 16 methods scroll on a screen
        set_width(browser, 800)
        assert find_clipped(browser) == []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    set_width(browser, 688)  # A4 less its margins
    clipped = find_clipped(browser)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert clipped == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_wide"), [("digits", 0), ("wine", 0), ("species", 1)])
def test_pictures_have_readable_text_on_a_phone(browser, fitted_pages, name, n_wide):
    """Text of figures has 9 pixels and is not cut; only a matrix of many classes scrolls."""
    open_page(browser, fitted_pages[name], width=400)
    figures = browser.execute_script(
        "return [...document.querySelectorAll('.figure')].map((figure) => {"
        "  const texts = [...figure.querySelectorAll('text')], svg = figure.querySelector('svg');"
        "  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;"
        "  return [figure.scrollWidth > figure.clientWidth, figure.tabIndex,"
        "    Math.min(...texts.map((e) => scale * parseFloat(getComputedStyle(e).fontSize))),"
        "    Math.max(...texts.map((e) => e.getBoundingClientRect().right))"
        "      > Math.max(svg.getBoundingClientRect().right, 400),"
        "    getComputedStyle(svg).overflow === 'visible' || !texts.some((e) =>"
        "      e.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1)]; })"
    )
    assert sum(scrolls for scrolls, *_ in figures) == n_wide
    for _, tab_index, size, is_outside, is_complete in figures:
        assert tab_index == 0
        assert size >= 9
        assert not is_outside
        assert is_complete
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 400


@pytest.mark.slow
def test_lines_break_neither_options_nor_numbers(browser, fitted_pages):
    open_page(browser, fitted_pages["wine"], width=400)
    lines = browser.execute_script(
        "const range = document.createRange();"
        "return [...document.querySelectorAll('#summary p, code')].flatMap((element) => {"
        "  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), lines = [];"
        "  for (let top = null, node = walker.nextNode(); node; node = walker.nextNode())"
        "    [...node.data].forEach((letter, i) => {"
        "      range.setStart(node, i); range.setEnd(node, i + 1);"
        "      const box = range.getBoundingClientRect();"
        "      if (top === null || box.top > top + 5) { top = box.top; lines.push(''); }"
        "      lines[lines.length - 1] += letter; });"
        "  return lines; })"
    )
    assert any("--" in line for line in lines)
    assert not [line for line in lines if line.strip().endswith(("--", "(p", " p", "p =", "±"))]
    assert not [line for line in lines if line.strip().startswith(("%", "="))]


@pytest.mark.slow
def test_long_tables_are_cut_on_paper_and_say_so(browser, pages):
    open_page(browser, pages["many"])
    add_rows = (
        "const body = document.querySelector('.scroll tbody'), row = body.rows[0];"
        "for (let i = 0; i < 150; i++) body.append(row.cloneNode(true));"
    )
    browser.execute_script(add_rows)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown, note = browser.execute_script(
        "const table = document.querySelector('.scroll');"
        "return [[...table.querySelectorAll('tbody tr')]"
        ".filter(row => getComputedStyle(row).display !== 'none').length,"
        "getComputedStyle(table, '::after').content]"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert shown == 100
    assert "first 100 rows" in note


@pytest.mark.slow
@pytest.mark.parametrize("media", ["", "print"])
def test_numbers_are_not_broken_on_a_narrow_page(browser, pages, media):
    open_page(browser, pages["wine"], width=400)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})
    heights = browser.execute_script(
        "return [...document.querySelectorAll('.bars .number')].map(cell => {"
        "  const range = document.createRange(); range.selectNodeContents(cell);"
        "  return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size; })"
    )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(heights) > 5
    assert set(heights) == {1}


@pytest.mark.slow
def test_plot_grows_with_the_screen(browser, pages):
    open_page(browser, pages["digits"], width=400)
    assert browser.execute_script(f"return {VIEW}.height") == 360
    set_width(browser, 1200)
    wait_until(browser, f"return {VIEW}.height === 520")


@pytest.mark.slow
def test_print_is_light_and_sharp(browser, pages):
    open_page(browser, pages["wine"])
    browser.find_element("id", "theme").click()
    browser.execute_script(
        "window.addEventListener('beforeprint', () => {"
        "  window.printed = [document.documentElement.dataset.theme,"
        "    document.querySelector('#scatter canvas').width / mpda.content.width]; });"
        f"mpda.content.width = {VIEW}.width"
    )
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
    assert len(pdf) > 50_000
    theme, ratio = browser.execute_script("return window.printed")
    assert theme == "light"
    assert ratio > 1.9
    wait_until(browser, "return document.documentElement.dataset.theme === 'dark'")


def test_text_from_the_data_is_not_executed(browser, pages):
    open_page(browser, pages["evil"])
    assert browser.title == EVIL
    assert read_texts(browser, ".legend li span")[0].startswith("</script><img")
    press_keys(browser, "n", Keys.ENTER)
    assert EVIL in " ".join(read_texts(browser, ".selection th"))
    assert browser.find_elements("css selector", "img") == []
    assert severe_messages(browser) == []
