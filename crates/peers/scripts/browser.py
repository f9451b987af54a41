"""Opens reports in a real browser and checks what a reader would see.

usage: browser.py check|update|show CHROMIUM PAGES PICTURES
       browser.py axe CHROMIUM PAGES AXE.js

PAGES is a folder of reports, one NAME.html each. `check` compares pictures of
them with those in PICTURES, `update` writes these, `show` writes larger ones
for the documentation. `axe` finds what axe-core rejects, such as controls
without a name. Prints each finding and fails if there is one.
"""

import base64
import json
import math
import pathlib
import re
import sys

from playwright.sync_api import sync_playwright

WIDTHS = {1280: 900, 390: 844}
THEMES = ["light", "dark"]
# Pictures are compared at an eighth of their size, where fonts hardly matter.
SCALE = 8
# Of 255: over the picture, and in the worst of its cells of 5 by 5 pixels.
MEAN_DIFFERENCE = 6
CELL_DIFFERENCE = 60

findings = []


def expect(holds, *what):
    if not holds:
        findings.append(" ".join(map(str, what)))
        print("  FINDING", *what)


def duration(ns):
    """As the report writes a time, made from its description alone."""
    for unit, size in [("s", 1e9), ("ms", 1e6), ("µs", 1e3)]:
        if abs(ns) >= size * (0.9995 if size > 1e3 else 1):
            value = ns / size
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f}\u202f{unit}"
    return f"{ns}\u202fns"


LAYOUT = """() => {
  const found = [], wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide) found.push("the page is wider than its window");
  const name = (e) => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.trim().slice(0, 40);
  for (const e of document.querySelectorAll("main *, header *, footer *")) {
    if (e.closest("svg, script, .spoken, .skip, [hidden]") || !e.checkVisibility()) continue;
    const r = e.getBoundingClientRect();
    if (r.width && (r.right > wide + 1 || r.left < -1)) found.push("beyond the window: " + name(e));
    const scrolls = getComputedStyle(e).overflowX !== "visible";
    if (scrolls && wide > 1000 && e.scrollWidth > e.clientWidth + 1) found.push("must be scrolled: " + name(e));
    if (scrolls && wide < 500 && e.matches(".scroll") && e.scrollWidth > e.clientWidth + 1) found.push("must be scrolled: " + name(e));
  }
  const apart = (list, what) => {
    const boxes = list.filter((e) => e.checkVisibility()).map((e) => [e, e.getBoundingClientRect()]);
    for (const [i, [a, p]] of boxes.entries()) for (const [b, q] of boxes.slice(i + 1))
      if (p.left < q.right && q.left < p.right && p.top + 1 < q.bottom && q.top + 1 < p.bottom)
        found.push(what + " overlap: " + name(a) + " / " + name(b));
  };
  let charts = 0;
  for (const figure of document.querySelectorAll("figure.chart")) {
    if (!figure.checkVisibility()) continue;
    charts += 1;
    const title = figure.querySelector("h4").textContent;
    const area = figure.querySelector(".area").getBoundingClientRect();
    if (area.width < 150 || area.height < 100) found.push("too small: " + title);
    let marks = 0;
    for (const path of figure.querySelectorAll("svg g path")) {
      const b = path.getBBox();
      const style = getComputedStyle(path);
      if (b.x < -1 || b.y < -1 || b.x + b.width > 1001 || b.y + b.height > 1001) found.push("a mark beyond " + title);
      if (style.stroke !== "none" || style.fill !== "none") marks += 1;
    }
    if (!marks) found.push("nothing is drawn in " + title);
    apart([...figure.querySelectorAll(".xs span")], "labels of " + title);
    apart([...figure.querySelectorAll(".ys span, .axis-name")], "labels of " + title);
    for (const said of figure.querySelectorAll(".said")) {
      const r = said.getBoundingClientRect();
      if (r.left < area.left - 1 || r.right > area.right + 1) found.push("a name beyond " + title + ": " + said.textContent);
    }
  }
  return [charts, found];
}"""

CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const low = new Map();
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest("script, style, svg, .spoken, .skip") || !e.checkVisibility()) continue;
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    let under = [255, 255, 255];
    for (const [r, g, b, a] of layers.reverse()) under = [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
    const style = getComputedStyle(e);
    const ink = rgba(style.color), a = ink[3];
    const over = under.map((v, i) => ink[i] * a + v * (1 - a));
    const [x, y] = [light(over), light(under)];
    const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) low.set(e.tagName + "." + e.className, ratio.toFixed(2));
  }
  return [...low];
}"""

# Two pictures in a page of their own: mean difference, and that of the worst cell.
COMPARE = """async ([one, two]) => {
  const pixels = async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    return [image.width, image.height, canvas.getImageData(0, 0, image.width, image.height).data];
  };
  const [w, h, a] = await pixels(one), [w2, h2, b] = await pixels(two);
  if (w !== w2 || h !== h2) return [255, 255];
  const cells = new Map();
  let sum = 0;
  for (let i = 0; i < a.length; i += 4) {
    const x = (i / 4) % w, y = Math.floor(i / 4 / w), cell = Math.floor(x / 5) + 1000 * Math.floor(y / 5);
    const d = (Math.abs(a[i] - b[i]) + Math.abs(a[i + 1] - b[i + 1]) + Math.abs(a[i + 2] - b[i + 2])) / 3;
    sum += d;
    cells.set(cell, (cells.get(cell) || 0) + d / 25);
  }
  return [sum / (w * h), Math.max(...cells.values())];
}"""

SHRINK = """async ([url, scale]) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  let [w, h, from] = [image.width, image.height, image];
  for (; scale > 1; scale /= 2) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [w = Math.ceil(w / 2), h = Math.ceil(h / 2)];
    canvas.getContext("2d").drawImage(from, 0, 0, w, h);
    from = canvas;
  }
  return from.toDataURL("image/png");
}"""


def url_of(png):
    return "data:image/png;base64," + base64.b64encode(png).decode()


class Browser:
    def __init__(self, playwright, chromium):
        self.chromium = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--hide-scrollbars", "--font-render-hinting=none"]
        )
        self.blank = self.chromium.new_page()

    def open(self, path, width, theme, **more):
        context = self.chromium.new_context(
            viewport={"width": width, "height": WIDTHS[width]}, color_scheme=theme, **more
        )
        page = context.new_page()
        name = f"{path.stem} {width} {theme}:"
        page.on("console", lambda m: expect(False, name, "the console says", m.text))
        page.on("pageerror", lambda e: expect(False, name, "the script failed:", e))
        page.on("request", lambda r: expect(r.url.split("#")[0] == path.as_uri(), name, "fetches", r.url))
        page.goto(path.as_uri())
        return page, name

    def shrunk(self, png):
        return self.blank.evaluate(SHRINK, [url_of(png), SCALE])


def check_page(browser, path, width, theme):
    page, name = browser.open(path, width, theme)
    charts, found = page.evaluate(LAYOUT)
    print(f"{name} {charts} charts")
    expect(charts >= 2, name, "only", charts, "charts")
    for finding in found:
        expect(False, name, finding)
    for element, ratio in page.evaluate(CONTRAST):
        expect(False, name, f"contrast of {element} is {ratio}")
    page.context.close()


def position(axis, value):
    """Where a share stands on an axis of nines, as the page's text describes it."""
    nines = lambda q: -math.log10(1 - q)
    return 1 if value >= 1 else nines(value) / nines(axis[3]) / 1.12


def check_hover(browser, path):
    page, name = browser.open(path, 1280, "light")
    summary = json.loads(page.locator("#summary").text_content())
    test = next(t for t in summary["tests"] if t["metrics"] and t["scenario"] == "Server")
    series = json.loads(path.with_suffix(".series.json").read_text())
    series = next(s for s in series["tests"] if s["folder"] == test["folder"])
    section = page.locator(f"section[id$='-{test['scenario'].lower()}-{test['mode']}']")
    chart = lambda title: section.locator("figure", has_text=title).first
    figure = chart("Latency by percentile")
    data, hover = hovering(page, figure)
    for share, key in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")]:
        tip = hover(position(data["x"], share))
        expected = duration(test["metrics"]["latency_ns"][key])
        expect(key in tip and expected in tip, name, f"hovering {key} says {tip!r}, not {expected!r}")
    page.mouse.move(5, 5)
    expect(figure.locator(".tip").is_hidden(), name, "the tooltip stays")
    figure.locator(".area").focus()
    page.keyboard.press("End")
    expect("max" in figure.locator(".tip").inner_text(), name, "the End key does not show the largest")
    check_histogram(page, name, chart("Latency histogram"), series["latency"]["histogram"])
    check_time_line(page, name, chart("Throughput over time"), series["slices"])
    key = page.locator("figure", has_text="Latency over time").first.locator("button.key").first
    key.click()
    expect(key.get_attribute("aria-pressed") == "false", name, "a series is not hidden")
    hidden = page.locator("figure", has_text="Latency over time").first.locator("svg g[hidden]")
    expect(hidden.count() == 1, name, "a hidden series is drawn")
    page.context.close()


def hovering(page, figure):
    """The data of a chart, and what its tooltip says at a place from 0 to 1."""
    area = figure.locator(".area")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()

    def hover(at):
        page.mouse.move(box["x"] + box["width"] * at, box["y"] + 40)
        return figure.locator(".tip").inner_text()

    return json.loads(figure.locator("script.data").text_content()), hover


def on_log(axis, value):
    return math.log(value / axis[2]) / math.log(axis[3] / axis[2])


def check_histogram(page, name, figure, buckets):
    """Every bar has the edges and the count of whole buckets, and its area is the count."""
    data, hover = hovering(page, figure)
    bars = data["series"][0]
    drawn = figure.locator("svg g path").first.get_attribute("d")
    drawn = [[float(v) for v in re.findall(r"[-\d.]+", bar)] for bar in drawn.split("Z") if bar]
    expect(len(drawn) == len(bars["x"]) > 5, name, len(drawn), "bars are drawn of", len(bars["x"]))
    per_height = []
    for n, (low, high) in enumerate(zip(bars["x"], bars["to"])):
        # The page has six digits of an edge.
        inside = [b for b in buckets if b[0] >= low * 0.99999 and b[1] <= high * 1.00001]
        count = sum(b[2] for b in inside)
        left, bottom, top, right, _ = drawn[n]
        expect(abs(left - 1000 * on_log(data["x"], low)) < 0.2, name, "bar", n, "begins at", left)
        expect(abs(right - 1000 * on_log(data["x"], high)) < 0.2 or right - left < 2, name, "bar", n, "ends at", right)
        tip = hover((left + right) / 2000)
        expected = [duration(round(low)), duration(round(high)), f"{count:,}"]
        expect(all(e in tip for e in expected), name, f"bar {n} says {tip!r}, not {expected}")
        if count > 20:
            per_height.append((bottom - top) * math.log(high / low) / count)
    expect(sum(b[2] for b in buckets) == sum(int(t.replace(",", "")) for t in bars["tip"]), name, "counts are lost")
    spread = max(per_height) / min(per_height) - 1
    expect(spread < 0.05, name, f"areas of bars are not their counts: off by {spread:.3f}")


def check_time_line(page, name, figure, slices):
    """What was answered in a part, drawn and told a second."""
    data, hover = hovering(page, figure)
    number = next(n for n, s in enumerate(data["series"]) if s["n"] == "answered")
    drawn = figure.locator(f"svg g[data-series='{number}'] path").get_attribute("d")
    heights = [float(y) for y in re.findall(r"V([-\d.]+)", drawn)]
    for n in range(1, len(slices) - 1, 7):
        part = slices[n]
        rate = part["completed_samples"] / part["width_ns"] * 1e9
        top = 1000 * (1 - rate / data["y"][3])
        expect(abs(heights[n - 1] - top) < 0.2, name, f"part {n} is drawn at {heights[n - 1]}, not {top:.1f}")
        tip = hover(part["begin_ns"] / data["x"][3])
        expected = f"{rate:,.0f}" if rate >= 1000 else f"{rate:.1f}" if rate >= 100 else f"{rate:.2f}"
        expect(expected in tip, name, f"part {n} says {tip!r}, not {expected}")


CHARTS = """() => [...document.querySelectorAll("section.card.test")].map((section) =>
  [...section.querySelectorAll("figure.chart")].map((figure) => {
    const names = JSON.parse(figure.querySelector("script.data").textContent).series.map((series) => series.n);
    const ticks = (of, edge) => [...figure.querySelectorAll(of)].map((e) => [e.textContent, parseFloat(e.style[edge])]);
    return {
      title: figure.querySelector("h4").textContent,
      x: ticks(".xs span", "left"),
      y: ticks(".ys span", "top"),
      log: [".x-name", ".axis-name"].map((name) => figure.querySelector(name).textContent.includes("logarithmic")),
      series: [...figure.querySelectorAll("svg g[data-series]")].map((g) => [
        names[g.dataset.series],
        g.querySelector("path").getAttribute("d")]),
    };
  }))"""

UNITS = {"ns": 1, "\u00b5s": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "%": 0.01, "k": 1e3, "M": 1e6, "G": 1e9, "": 1}
# Of 1000 units: labels stand on tenths of a percent.
PLACE_TOLERANCE = 4


def read_label(text):
    """The value of a label beside an axis."""
    if text in ("min", "max") or text.startswith("p"):
        return {"min": 0.0, "max": 1.0}.get(text) if text in ("min", "max") else float(text[1:]) / 100
    number, unit = re.fullmatch(r"([-\d.,]+)\s*(\S*)", text.replace("\u202f", " ")).groups()
    return float(number.replace(",", "")) * UNITS[unit]


class Places:
    """Where values stand on an axis, by the labels beside it alone."""

    def __init__(self, ticks, is_log):
        known = [(read_label(text), 10 * at) for text, at in ticks]
        self.is_nines = any(text.startswith("p") or text in ("min", "max") for text, _ in ticks)
        self.single = dict(known) if is_log or self.is_nines else {}
        self.shown = {"log": is_log and not self.is_nines}
        usable = [(self.scaled(v), at) for v, at in known if self.scaled(v) is not None]
        self.usable = sorted(usable)

    def scaled(self, value):
        if self.is_nines:
            return None if value >= 1 else -math.log10(1 - value)
        if self.shown["log"]:
            return None if value <= 0 else math.log(value)
        return value

    def __call__(self, value):
        """None where no label says it."""
        at = self.scaled(value)
        if at is None:
            return self.single.get(value)
        if len(self.usable) < 2:
            return None
        (a, from_), (b, to) = self.usable[0], self.usable[-1]
        return from_ + (at - a) / (b - a) * (to - from_)


def charts_of(test):
    """Title and series of charts, with the points that series.json has for them."""
    slices, middle = test["slices"], lambda s: s["begin_ns"] + s["width_ns"] / 2
    by_time = lambda of: [(middle(s), of(s)) for s in slices if of(s) is not None]
    late = lambda n: by_time(lambda s: s["latency_ns"] and s["latency_ns"][n])
    return {
        ("Latency by percentile", "latency"): test["latency"]["spectrum"],
        ("Lag of the client by percentile", "client's own lag"): test["client_lag"]["spectrum"],
        ("Time to first token", "first token"): test["first_token"]["spectrum"],
        ("Time per output token", "per token"): test["time_per_output_token"]["spectrum"],
        ("Latency over time", "p50"): late(0),
        ("Latency over time", "max"): late(3),
        ("Lag of the client over time", "p99 of the lag"): by_time(lambda s: s["client_lag_p99_ns"]),
        ("In flight", "in flight"): [(s["begin_ns"] + s["width_ns"], s["in_flight"]) for s in slices],
        ("Cumulative distribution", None): cumulative(test["latency"]),
    }


NOTHING = {"spectrum": [[0, 0]], "histogram": [[0, 1, 1]]}
EMPTY = {key: NOTHING for key in ["latency", "client_lag", "first_token", "time_per_output_token"]} | {"slices": []}


def cumulative(of):
    if not of["spectrum"]:
        return []
    least, most = of["spectrum"][0][1], of["spectrum"][-1][1]
    points, total, sum_ = [(least, 0)], sum(b[2] for b in of["histogram"]), 0
    for _, to, count in of["histogram"]:
        sum_ += count
        points.append((max(least, min(to, most)), sum_ / total))
    return points


def drawn_points(path):
    """Places of a line, or of the corners of steps."""
    if "H" not in path:
        return [tuple(map(float, p.split())) for p in re.split("[ML]", path) if p]
    places = []
    for verb, text in re.findall(r"([MHV])([-\d. ]+)", path):
        numbers = [float(n) for n in text.split()]
        if verb == "M":
            places.append(tuple(numbers))
        elif verb == "H":
            x = numbers[0]
        else:
            places.append((x, numbers[0]))
    return places


def check_points(browser, path):
    """Every point of a line stands where the labels of its axes have its value."""
    page, name = browser.open(path, 1280, "light")
    summary = json.loads(page.locator("#summary").text_content())
    series = json.loads(path.with_suffix(".series.json").read_text())
    compared = {}
    measured = [test for test in summary["tests"] if test["metrics"]]
    for test, charts in zip(measured, page.evaluate(CHARTS)):
        found = next((s for s in series["tests"] if s["folder"] == test["folder"]), None)
        expected = charts_of(found) if found else {}
        for chart in charts:
            places = [Places(chart["x"], chart["log"][0]), Places(chart["y"], chart["log"][1])]
            for line, path_ in chart["series"]:
                points = expected.get((chart["title"], line)) or expected.get((chart["title"], None))
                if not points:
                    continue
                drawn = drawn_points(path_)
                what = f"{test['folder']}: {chart['title']}, {line}:"
                expect(len(drawn) == len(points), name, what, len(drawn), "points are drawn of", len(points))
                for at, value in zip(drawn, points):
                    for axis, place, v in zip("xy", at, value):
                        right = places["xy".index(axis)](v)
                        if right is None:
                            continue
                        expect(abs(place - right) < PLACE_TOLERANCE, name, what, f"{axis} of {value} is at {place}, not {right:.1f}")
                        compared[chart["title"]] = compared.get(chart["title"], 0) + 1
    print(f"{name} compared {compared}")
    page.context.close()
    return compared


# What is looked for in the first table of a page, and is in some of its rows.
FILTERS = {"several": "invalid", "sweep": "invalid", "search": "bracket"}
# Pages of a tuner have no such table.
UNFILTERED = {"tune", "widths"}


def check_controls(browser, path):
    page, name = browser.open(path, 1280, "light")
    table = page.locator("table.filtered").first
    if path.stem not in UNFILTERED:
        visible = lambda: table.locator("tbody tr:visible").count()
        before = visible()
        page.locator(".filter input").first.fill(FILTERS.get(path.stem, "seed"))
        after = visible()
        expect(0 < after < before, name, f"the filter leaves {after} of {before} rows")
        page.locator(".filter input").first.fill("")
        expect(visible() == before, name, "an empty filter hides rows")
    back = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    colors = []
    for _ in range(3):
        page.locator("#theme").click()
        colors.append((page.locator("#theme").inner_text(), back()))
    expect([c[0] for c in colors] == ["Theme: light", "Theme: dark", "Theme: system"], name, colors)
    expect(colors[0][1] != colors[1][1] and colors[0][1] == colors[2][1], name, "the theme does not switch", colors)
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    expect(outline != "none", name, "what has the focus does not show it")
    if page.locator("table.sorted").count():
        table.locator("thead button", has_text="p99").click()
        column = "[...document.querySelector('table.sorted').querySelectorAll('tbody tr')].map(r => +r.querySelector('[data-label=p99]').dataset.value)"
        values = page.evaluate(column)
        expect(values == sorted(values), name, "sorting by p99 gives", values)
        dots = page.locator("figure", has_text="Latency by load" if path.stem == "search" else "Latency by throughput").first
        area = dots.locator(".area")
        area.focus()
        page.keyboard.press("ArrowRight")
        expect("p99" in dots.locator(".tip").inner_text(), name, "a point says nothing of itself")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})
    expect(page.evaluate("document.documentElement.scrollWidth <= 720"), name, "too wide for paper")
    expect(page.locator(".tools").is_hidden(), name, "buttons are printed")
    expect(len(page.pdf(format="A4")) > 20_000, name, "the PDF is empty")
    page.context.close()


def check_without_script(browser, path):
    page, name = browser.open(path, 1280, "light", java_script_enabled=False)
    expect(page.locator("figure svg").count() >= 3, name, "no charts without the script")
    first = page.locator(".views").first
    if first.count():
        first.locator("label", has_text="logarithmic").click()
        expect(first.locator("figure").nth(1).is_visible(), name, "the histogram does not switch")
    page.context.close()


def pictures(browser, path, folder, mode):
    for width, theme in [(1280, "light"), (390, "dark")]:
        page, name = browser.open(path, width, theme)
        now = browser.shrunk(page.screenshot())
        page.context.close()
        kept = folder / f"{path.stem}-{width}-{theme}.png"
        if mode == "update":
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(base64.b64decode(now.split(",")[1]))
        elif not kept.exists():
            expect(False, name, "there is no picture", kept.name)
        else:
            mean, cell = browser.blank.evaluate(COMPARE, [url_of(kept.read_bytes()), now])
            print(f"{name} differs from its picture by {mean:.1f}, at most {cell:.1f}")
            expect(mean <= MEAN_DIFFERENCE and cell <= CELL_DIFFERENCE, name, f"differs from {kept.name}: {mean:.1f}, {cell:.1f}")


def check_that_pictures_tell(browser, pages):
    """A comparison that takes one page for another compares nothing."""
    page, _ = browser.open(pages[0], 1280, "light")
    right = browser.shrunk(page.screenshot())
    page.add_style_tag(content=".card { display: inline-block !important; width: 50% } .badge { display: none }")
    wrong = browser.shrunk(page.screenshot())
    page.context.close()
    mean, cell = browser.blank.evaluate(COMPARE, [right, wrong])
    expect(mean > MEAN_DIFFERENCE or cell > CELL_DIFFERENCE, "a broken page differs only by", mean, cell)


VIOLATIONS = """async () => (await axe.run({resultTypes: ["violations"]})).violations
  .map((rule) => [rule.id, rule.help, rule.nodes.map((node) => node.html.slice(0, 80))])"""


def check_accessibility(browser, pages, axe):
    for path in pages:
        for width in WIDTHS:
            for theme in THEMES:
                page, name = browser.open(path, width, theme)
                page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true })")
                page.evaluate(axe)
                for rule, advice, nodes in page.evaluate(VIOLATIONS):
                    expect(False, name, f"{rule}: {advice}:", *nodes[:3])
                page.context.close()
    # A check that accepts a page with an error checks nothing.
    page, name = browser.open(pages[0], 1280, "light")
    page.evaluate("document.querySelector('main').append(document.createElement('img'))")
    page.evaluate(axe)
    rules = [rule for rule, *_ in page.evaluate(VIOLATIONS)]
    expect(rules == ["image-alt"], name, "with an image without a text, axe-core finds", rules)
    page.context.close()


# What the documentation shows: page, width, theme, and a heading or chart to begin at.
SHOWN = [
    ("valid", 1280, "light", None),
    ("valid", 390, "dark", None),
    ("valid", 1280, "dark", "[id$=-server-performance]"),
    ("invalid", 1280, "light", "[id$=-server-performance] .stopping"),
    ("several", 1280, "light", ".test .charts"),
    ("interrupted", 1280, "light", None),
    ("search", 1280, "light", None),
    ("sweep", 1280, "light", None),
    ("tune", 1280, "light", None),
]


def show(browser, pages, folder):
    """For the documentation."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, width, theme, start in SHOWN:
        path = next(path for path in pages if path.stem == stem)
        page, _ = browser.open(path, width, theme, reduced_motion="reduce")
        place = "-" + start.split(".")[-1].split("$=-")[-1].strip("]") if start else ""
        out = folder / f"report-{stem}{place}-{width}-{theme}.png"
        if not start or start.endswith("]"):
            page.evaluate("start => start && document.querySelector(start).scrollIntoView()", start)
            page.screenshot(path=out)
        else:
            page.add_style_tag(content=start + "{ padding: 20px; background: var(--card) }")
            page.locator(start).first.screenshot(path=out)
        page.context.close()


def compare(browser, pages, folder, mode):
    for path in pages:
        if mode == "check":
            for width in WIDTHS:
                for theme in THEMES:
                    check_page(browser, path, width, theme)
            check_controls(browser, path)
            check_without_script(browser, path)
        pictures(browser, path, folder, mode)
    if mode == "check":
        check_hover(browser, next(path for path in pages if path.stem == "valid"))
        check_that_pictures_tell(browser, pages)
        compared = {}
        # Of a run in real time, whose client lags, there is no picture.
        for path in pages + sorted(pages[0].parent.glob("real/*.html")):
            if path.with_suffix(".series.json").exists():
                compared |= check_points(browser, path)
        titles = {title for title, _ in charts_of(EMPTY)}
        expect(compared.keys() == titles, "of these charts no point was compared:", titles - compared.keys())


def main():
    mode, chromium, pages, folder = sys.argv[1:]
    pages = sorted(pathlib.Path(pages).resolve().glob("*.html"))
    folder = pathlib.Path(folder)
    with sync_playwright() as playwright:
        browser = Browser(playwright, chromium)
        if mode == "show":
            show(browser, pages, folder)
            return
        if mode == "axe":
            check_accessibility(browser, pages, folder.read_text())
        else:
            compare(browser, pages, folder, mode)
    print(f"{len(pages)} pages, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
