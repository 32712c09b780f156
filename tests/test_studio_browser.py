"""The studio in a real browser: through every page to the downloaded file, two pages at once, keys, widths, names that look like HTML."""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM = next((p for p in (shutil.which(n) for n in ("chromium", "chromium-browser", "google-chrome")) if p), None)
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip(
        "there is no Chromium with its driver here (packages chromium and chromium-driver)", allow_module_level=True
    )

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from studio_client import PATIENCE, Server, eventually  # noqa: E402

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1280,1000",
)  # fmt: skip
PAINTED = """
const c = arguments[0], d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, seen = new Set();
for (let k = 0; k < d.length; k += 4 * 7) if (d[k + 3]) seen.add((d[k] << 16) | (d[k + 1] << 8) | d[k + 2]);
return seen.size;
"""


@pytest.fixture(scope="module")
def server():
    running = Server()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(tmp_path_factory, downloads):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(60)
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    yield driver
    driver.quit()


@pytest.fixture
def studio(browser, server):
    """Opens a page; at the end nothing may stand in the browser's log of errors."""

    def opened(name: str):
        browser.get("about:blank")
        browser.get(f"{server.address}#{name}")
        assert eventually(lambda: browser.find_elements(By.TAG_NAME, "h1"))
        return browser

    yield opened
    wrong = [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    assert not wrong


def field(browser, name: str, value: object) -> None:
    box = browser.find_element(By.ID, name)
    box.clear()
    box.send_keys(str(value))


def status(browser) -> str:
    found = browser.find_element(By.CSS_SELECTOR, "[role=status]")
    assert "bad" not in (found.get_attribute("class") or ""), found.text
    return found.text


def press(button) -> None:
    """By key: what moves while pictures are still being drawn cannot be missed by the mouse."""
    button.send_keys(Keys.ENTER)


def run(browser) -> str:
    """Start, wait until it is done; what it says."""
    press(browser.find_element(By.ID, "start"))
    assert eventually(lambda: status(browser).startswith("Done"), PATIENCE)
    return browser.find_element(By.ID, "said").text


def downloaded(browser, folder: Path) -> zipfile.ZipFile:
    for old in folder.iterdir():
        old.unlink()
    for _ in range(3):
        press(browser.find_element(By.ID, "download"))
        if eventually(lambda: list(folder.iterdir())):
            break
    assert eventually(lambda: [p for p in folder.iterdir() if p.suffix == ".zip"], 60), list(folder.iterdir())
    return zipfile.ZipFile(next(folder.glob("*.zip")))


def painted(browser, selector: str = ".stage canvas") -> int:
    return browser.execute_script(PAINTED, browser.find_element(By.CSS_SELECTOR, selector))


def settled(browser) -> bool:
    line = browser.find_element(By.CSS_SELECTOR, ".timeline input")
    return float(line.get_attribute("value")) >= float(line.get_attribute("max")) > 0


def test_puzzle_from_a_file_to_everything_it_writes(studio, downloads):
    browser = studio("puzzle")
    photo = str(files("unshuffle") / "data" / "coffee.jpg")
    browser.find_element(By.ID, "file").send_keys(photo)
    assert eventually(lambda: status(browser).startswith("Ready"))
    field(browser, "across", 6)
    field(browser, "down", 4)
    said = run(browser)
    assert "24 tiles (6x4)" in said
    assert "In place: 100.0%" in said
    assert browser.find_element(By.ID, "command").text == "unshuffle jigsaw coffee.jpg --grid 6x4 --shuffle"
    with downloaded(browser, downloads) as archive:
        assert {"results/reassembled.png", "results/before-after.png", "results/order.csv"} <= set(archive.namelist())
        result = json.loads(archive.read("results/result.json"))
    assert result["accuracy"]["direct"] == 1.0
    assert eventually(lambda: settled(browser))
    assert painted(browser) > 500
    assert painted(browser, ".side canvas") > 1  # the soft permutation
    before = painted(browser)
    browser.find_element(By.ID, "sure").click()
    assert eventually(lambda: painted(browser) != before)
    assert "24 tiles" in browser.find_element(By.CSS_SELECTOR, ".stage canvas").get_attribute("aria-label")


def example(browser, name: str) -> str:
    """Press it, wait until it is done; what it says."""
    press(next(chip for chip in browser.find_elements(By.CSS_SELECTOR, ".chip") if chip.text == name))
    assert eventually(lambda: status(browser).startswith("Done"), PATIENCE)
    return browser.find_element(By.ID, "said").text


def test_turned_tiles(studio, downloads):
    browser = studio("puzzle")
    said = example(browser, "turned")
    assert "48 tiles (8x6)" in said
    assert "In place: 100.0%" in said
    assert not browser.find_element(By.ID, "foreign").is_enabled(), "of a photo that is cut here all tiles belong"
    assert not browser.find_element(By.ID, "anchors").is_enabled(), "places are given away of upright tiles only"
    assert browser.find_element(By.ID, "command").text == "unshuffle jigsaw coffee.jpg --grid 8x6 --shuffle --turned"
    with downloaded(browser, downloads) as archive:
        turns = json.loads(archive.read("results/result.json"))["turns"]
    assert set(turns) == {0, 1, 2, 3}
    assert eventually(lambda: settled(browser))
    assert painted(browser) > 500


def test_tiles_that_are_missing_and_foreign_ones(studio, downloads):
    browser = studio("puzzle")
    said = example(browser, "missing and foreign")
    assert "5 places of 54 stay empty" in said
    assert "5 tiles are left out" in said
    assert browser.find_element(By.ID, "command").text == "unshuffle jigsaw pieces --foreign"
    assert browser.find_element(By.ID, "foreign").is_selected()
    with downloaded(browser, downloads) as archive:
        assert {"pieces/tile-01.png", "results/reassembled.png", "results/left-out.png"} <= set(archive.namelist())
    assert "49 tiles; 5 are left out" in browser.find_element(By.CSS_SELECTOR, ".stage canvas").get_attribute(
        "aria-label"
    )
    assert eventually(lambda: settled(browser))
    assert painted(browser) > 500


def test_two_pictures_in_one_pile_of_files(studio, downloads, tmp_path):
    from unshuffle.studio import examples

    paths = examples.example("puzzle", "two in one pile", tmp_path)
    browser = studio("puzzle")
    several = browser.find_element(By.ID, "several")
    assert not several.is_enabled(), "one photo is no pile"
    browser.find_element(By.ID, "file").send_keys("\n".join(map(str, paths)))
    assert eventually(lambda: status(browser).startswith("Ready"))
    several.click()
    for name in ("across", "shuffle", "foreign", "polish", "anchors"):
        assert not browser.find_element(By.ID, name).is_enabled(), name
    assert "2 pictures (6x4, 6x4)" in run(browser)
    assert browser.find_element(By.ID, "command").text == "unshuffle jigsaw pieces --several"
    with downloaded(browser, downloads) as archive:
        names = set(archive.namelist())
    assert {
        "names.txt",
        "pieces/0001.png",
        "results/picture-1.png",
        "results/picture-2.png",
        "results/order.csv",
    } <= names
    links = [link.text for link in browser.find_elements(By.CSS_SELECTOR, ".files a")]
    assert "picture-1.png" in links
    assert eventually(lambda: settled(browser))
    assert painted(browser) > 500


def test_strips(studio, downloads):
    browser = studio("strips")
    assert "16 strips" in run(browser)
    with downloaded(browser, downloads) as archive:
        names = set(archive.namelist())
    assert {"results/page.png", "results/order.csv", "pieces/strip-01.png"} <= names
    assert eventually(lambda: browser.execute_script("return document.querySelector('img.whole').naturalWidth") > 300)


def test_strips_of_two_pages(studio, downloads):
    browser = studio("strips")
    assert "of 2 pages (12, 12)" in example(browser, "two pages")
    assert browser.find_element(By.ID, "command").text == "unshuffle strips pieces --several"
    with downloaded(browser, downloads) as archive:
        assert {"results/page-1.png", "results/page-2.png"} <= set(archive.namelist())
    assert len(browser.find_elements(By.CSS_SELECTOR, "img.whole")) == 2
    assert painted(browser) > 50


def test_cities_are_placed_moved_and_removed_while_it_runs(studio, downloads):
    browser = studio("tour")
    canvas = browser.find_element(By.CSS_SELECTOR, ".stage canvas")
    click = """
    const c = arguments[0], box = c.getBoundingClientRect(), at = {clientX: box.left + arguments[1] * box.width, clientY: box.top + arguments[2] * box.height, bubbles: true, pointerId: 1, button: 0};
    c.setPointerCapture = () => {};
    c.dispatchEvent(new PointerEvent('pointerdown', at));
    if (arguments[3]) c.dispatchEvent(new PointerEvent('pointermove', {...at, clientX: at.clientX + 30}));
    c.dispatchEvent(new PointerEvent('pointerup', at));
    """
    for x, y in ((0.2, 0.2), (0.8, 0.25), (0.75, 0.8), (0.3, 0.7), (0.5, 0.1)):
        browser.execute_script(click, canvas, x, y, False)
    assert eventually(lambda: status(browser).startswith("Done"), PATIENCE)
    assert "5 cities" in browser.find_element(By.ID, "said").text
    browser.execute_script(click, canvas, 0.2, 0.2, True)  # drags the first city
    canvas.send_keys(Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ENTER)  # and places a sixth by keys
    assert eventually(
        lambda: "6 cities" in browser.find_element(By.ID, "said").text and status(browser).startswith("Done"), PATIENCE
    )
    canvas.send_keys(Keys.DELETE)
    assert eventually(
        lambda: "5 cities" in browser.find_element(By.ID, "said").text and status(browser).startswith("Done"), PATIENCE
    )
    with downloaded(browser, downloads) as archive:
        assert {"cities.csv", "results/cities.tour", "results/cities.png"} <= set(archive.namelist())


def test_table_and_a_pause(studio, downloads):
    browser = studio("table")
    field(browser, "time_limit", 3)
    press(browser.find_element(By.ID, "start"))
    pause = browser.find_element(By.ID, "pause")
    assert eventually(lambda: pause.is_enabled() or status(browser).startswith("Done"), PATIENCE)
    if pause.is_enabled():
        pause.click()
        assert eventually(lambda: pause.text == "Go on" or status(browser).startswith("Done"))
        if pause.text == "Go on":
            pause.click()
    assert eventually(lambda: status(browser).startswith("Done"), PATIENCE)
    assert "40 rows" in browser.find_element(By.ID, "said").text
    with downloaded(browser, downloads) as archive:
        assert {"results/rows.csv", "results/columns.csv", "results/table.csv"} <= set(archive.namelist())
    assert painted(browser) > 20


def test_match_of_two_files_whose_names_look_like_html(studio, downloads, tmp_path):
    import numpy as np

    random = np.random.default_rng(0)
    A = random.random((20, 2))
    paths = [tmp_path / f"<img src=x onerror=alert({k})>.csv" for k in (1, 2)]
    for path, X in zip(paths, (A, A[::-1] + 2), strict=True):
        path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in X.tolist()))
    browser = studio("match")
    browser.find_element(By.ID, "file").send_keys("\n".join(map(str, paths)))
    assert eventually(lambda: status(browser).startswith("Ready"))
    assert "20 pairs" in run(browser)
    assert "<img src=x" in browser.find_element(By.ID, "command").text
    assert not browser.find_elements(By.CSS_SELECTOR, "main img[src=x]")
    with downloaded(browser, downloads) as archive:
        assert {"a.csv", "b.csv", "results/pairs.csv"} <= set(archive.namelist())


def test_learning_side_by_side(studio, downloads):
    browser = studio("learn")
    field(browser, "n", 4)
    field(browser, "epochs", 2)
    browser.execute_script("document.getElementById('recipe').value = 'strong'")
    said = run(browser)
    with downloaded(browser, downloads) as archive:
        names = set(archive.namelist())
    for name in ("global", "adaptive", "entropy"):
        assert f"{name}: 2 epochs" in said
        assert {f"results/{name}/best.pt", f"results/{name}/log.jsonl", f"results/{name}/run.json"} <= names
        numbers = browser.find_element(By.ID, f"numbers-{name}").text.split()
        assert numbers[numbers.index("epoch") + 1] == "2"
        assert 0.3 < float(numbers[numbers.index("tau") + 1]) <= 1
    assert painted(browser, ".three canvas") > 3


def test_sliders_of_the_explaining_page(studio):
    browser = studio("explain")

    def entropy() -> float:
        words = browser.find_element(By.ID, "explain-numbers").text.split()
        return float(words[words.index("entropy") + 1]) if "entropy" in words else -1

    assert eventually(lambda: entropy() > 0)
    soft = entropy()
    beta = browser.find_element(By.ID, "beta")
    beta.send_keys(Keys.END)
    assert eventually(lambda: 0 <= entropy() < soft / 2)
    browser.find_element(By.ID, "by-entropy").click()
    assert eventually(lambda: abs(entropy() - 0.5) < 0.02)
    assert painted(browser, "canvas.small") > 20


def test_two_pages_at_once(studio, browser, server):
    studio("match")
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    second = browser.current_window_handle
    browser.get(f"{server.address}#strips")
    for tab in (first, second):
        browser.switch_to.window(tab)
        assert eventually(lambda: browser.find_elements(By.ID, "start"))
        press(browser.find_element(By.ID, "start"))
    for tab, words in ((first, "pairs"), (second, "16 strips")):
        browser.switch_to.window(tab)
        assert eventually(lambda: status(browser).startswith("Done"), PATIENCE)
        assert words in browser.find_element(By.ID, "said").text
    browser.close()
    browser.switch_to.window(first)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_fits_its_width_and_can_be_read(studio, browser, width, theme):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    try:
        for name in ("puzzle", "strips", "tour", "table", "match", "learn", "explain"):
            studio(name)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width, name
            unnamed = browser.execute_script(
                "return [...document.querySelectorAll('button, input, select, a, canvas')].filter(e => !(e.textContent.trim() || "
                "e.ariaLabel || e.getAttribute('aria-label') || (e.labels && e.labels.length))).map(e => e.outerHTML)"
            )
            assert not unnamed, (name, unnamed)
            ink, ground = browser.execute_script(
                "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
            )
            assert contrast(ink, ground) > 7
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def contrast(one: str, other: str) -> float:
    """As the accessibility guidelines count it."""

    def light(colour: str) -> float:
        parts = [int(p) / 255 for p in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_all_can_be_done_by_keys(studio, browser):
    studio("match")
    reached = []
    for _ in range(30):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.append(
            browser.execute_script("const e = document.activeElement; return e.id || e.textContent.trim().slice(0, 30)")
        )
        if reached[-1] == "start":
            break
    assert reached[0] == "To the page"
    assert "Puzzle" in reached
    assert reached[-1] == "start", reached
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    assert eventually(lambda: status(browser).startswith("Done"), PATIENCE)


def test_a_page_whose_connection_was_lost_says_so_and_takes_its_files_along(studio, browser, tmp_path):
    (tmp_path / "places.csv").write_text("x,y\n" + "".join(f"{k % 23},{k % 31}\n" for k in range(300)))
    studio("tour")
    browser.find_element(By.ID, "file").send_keys(str(tmp_path / "places.csv"))
    assert eventually(lambda: status(browser).startswith("Ready"))
    press(browser.find_element(By.ID, "start"))
    assert eventually(lambda: browser.find_element(By.ID, "pause").is_enabled())
    browser.execute_async_script(
        "const end = arguments[0]; import('/session.js').then((s) => s.ask(s.mine('leave'), {}).catch(() => 0).then(end))"
    )
    assert eventually(lambda: browser.find_element(By.ID, "start").is_enabled())
    told = browser.find_element(By.CSS_SELECTOR, "[role=status]")
    assert eventually(lambda: "the files are here again" in told.text), "sent again by itself"
    field(browser, "time_limit", 0.2)
    assert "300 cities" in run(browser)


def test_a_page_without_its_token_and_a_server_that_stops_are_told(browser):
    other = Server()
    try:
        browser.get(other.address.split("?")[0])
        assert eventually(lambda: "lacks its token" in browser.find_element(By.CSS_SELECTOR, "[role=status]").text)
        browser.get("about:blank")
        browser.get(other.address)
        assert eventually(lambda: browser.find_elements(By.ID, "start"))
        time.sleep(0.3)
    finally:
        other.stop()
    told = "[role=status]"
    assert eventually(lambda: "does not answer" in browser.find_element(By.CSS_SELECTOR, told).text), "by itself"
    browser.execute_script("document.querySelector('[role=status]').textContent = ''")
    press(browser.find_element(By.ID, "start"))
    assert eventually(lambda: "does not answer" in browser.find_element(By.CSS_SELECTOR, told).text), "when asked"
    again = Server(other.port)
    try:
        assert eventually(lambda: "started anew" in browser.find_element(By.CSS_SELECTOR, told).text), "another token"
        browser.get(again.address + "#match")
        assert eventually(lambda: browser.find_elements(By.ID, "start"))
        assert "pairs" in run(browser)
    finally:
        browser.get("about:blank")
        again.stop()
    browser.get_log("browser")  # the errors of this test are meant
