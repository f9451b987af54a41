"use strict";
(() => {
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const narrow = "\u202f";
  const threeDigits = (v) => v.toFixed(Math.abs(v) < 9.995 ? 2 : Math.abs(v) < 99.95 ? 1 : 0);
  const commas = (v) => Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  const trimmed = (v, d) => v.toFixed(d).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  const time = (exact) => {
    const ns = Math.round(exact), size = Math.abs(ns);
    if (size <= 1e3) return ns + narrow + "ns";
    if (size < 999.5e3) return threeDigits(ns / 1e3) + narrow + "µs";
    if (size < 999.5e6) return threeDigits(ns / 1e6) + narrow + "ms";
    if (size < 120e9) return threeDigits(ns / 1e9) + narrow + "s";
    const seconds = Math.floor(size / 1e9);
    return `${Math.floor(seconds / 60)}${narrow}min ${String(seconds % 60).padStart(2, "0")}${narrow}s`;
  };
  const share = (v) => {
    const percent = 100 * v;
    const extreme = (percent > 99.9 && percent < 100) || (percent > 0 && percent < 0.1);
    return trimmed(percent, extreme ? 4 : 2) + narrow + "%";
  };
  const formats = {
    time, elapsed: time, count: commas, share,
    rate: (v) => v >= 1e3 ? commas(v) : v.toFixed(v >= 100 ? 1 : v >= 10 ? 2 : 3),
    percentile: (v) => v <= 0 ? "min" : v >= 1 ? "max" : "p" + trimmed(v * 100, 4),
  };
  // Where a value stands, from 0 to 1: as the chart was drawn.
  const placed = ([, scale, low, high], value) => {
    const nines = (q) => -Math.log10(1 - q);
    const log = () => Math.log(Math.max(value, 1e-300) / low) / Math.log(high / low);
    const at = scale === "linear" ? (value - low) / (high - low)
      : scale === "log" ? log()
      : scale === "log0" ? (value > 0 ? 0.08 + 0.92 * Math.max(0, log()) : 0)
      : value >= 1 ? 1 : nines(value) / nines(high) / 1.12;
    return Math.min(1, Math.max(0, at));
  };

  function chart(figure) {
    const source = figure.querySelector("script.data");
    const area = figure.querySelector(".area");
    if (!source || !area) return;
    const of = JSON.parse(source.textContent);
    let columns = [];
    for (const series of of.series) {
      columns = series.x = series.x || columns;
      series.at = series.x.map((v, i) => placed(of.x, series.shape === "bars" ? (v + series.to[i]) / 2 : v));
      series.shown = true;
    }
    legend(figure, of);
    const cross = make("div", { className: "cross", hidden: true });
    const tip = make("div", { className: "tip", hidden: true });
    const spots = make("div");
    area.append(cross, spots, tip);
    const live = make("span", { className: "spoken" });
    live.setAttribute("aria-live", "polite");
    area.append(live);
    area.tabIndex = 0;
    area.setAttribute("role", "group");
    area.setAttribute("aria-label", figure.querySelector("h4").textContent + ": arrow keys read the values");
    const main = of.series.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    let current = -1;
    const hide = () => { cross.hidden = tip.hidden = true; spots.replaceChildren(); current = -1; };
    const spot = (series, at, value) => {
      const dot = make("div", { className: "spot " + series.c });
      dot.style.left = 100 * at + "%";
      dot.style.top = 100 * (1 - placed(of.y, value)) + "%";
      spots.append(dot);
    };
    const tell = (at, lines) => {
      tip.replaceChildren(...lines.map(([name, value], i) => value === undefined
        ? make(i ? "div" : "b", { textContent: name })
        : make("div", {}, make("span", { textContent: name }), make("b", { textContent: value }))));
      tip.hidden = false;
      const room = area.clientWidth - tip.offsetWidth;
      const left = at * area.clientWidth + (at > 0.5 ? -tip.offsetWidth - 12 : 12);
      tip.style.left = Math.min(Math.max(left, -48), Math.max(room, -48)) + "px";
      live.textContent = lines.flat().filter(Boolean).join(" ");
    };
    const nearest = (list, at) => list.reduce((best, v, i) => Math.abs(v - at) < Math.abs(list[best] - at) ? i : best, 0);
    const showLines = (at) => {
      const lines = [];
      spots.replaceChildren();
      for (const series of of.series.filter((s) => s.shown)) {
        const i = nearest(series.at, at);
        if (series !== main && Math.abs(series.at[i] - at) > 0.03) continue;
        const value = series.shape === "band" ? series.to[i] : series.y[i];
        lines.push([series.n, series.shape === "bars" && series.tip ? series.tip[i] : formats[of.y[4]](value)]);
        spot(series, series.at[i], value);
      }
      const i = nearest(main.at, at);
      const x = formats[of.x[4]];
      const named = main.shape === "bars" && of.x[4] !== "count" ? x(main.x[i]) + " – " + x(main.to[i])
        : main.shape === "bars" ? bins(main.x[i], main.to[i]) : x(main.x[i]);
      cross.style.left = 100 * at + "%";
      cross.hidden = false;
      tell(at, [[named], ...lines]);
    };
    const bins = (from, to) => {
      const [first, last] = [Math.ceil(from), Math.floor(to)];
      return first >= last ? commas(first) : commas(first) + " – " + commas(last);
    };
    const points = () => of.series.filter((s) => s.shown).flatMap((s) => s.tip
      ? s.at.map((at, i) => ({ s, at, y: s.y[i], tip: s.tip[i] })) : []);
    const showPoint = (point) => {
      spots.replaceChildren();
      spot(point.s, point.at, point.y);
      tell(point.at, point.tip.split("\n").map((line) => [line]));
    };
    const isPoints = of.kind === "points";
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      if (!isPoints) { current = nearest(main.at, x); return showLines(main.at[current]); }
      const far = (p) => Math.hypot((p.at - x) * box.width, (1 - placed(of.y, p.y) - y) * box.height);
      const best = points().reduce((a, b) => (!a || far(b) < far(a) ? b : a), null);
      if (best && far(best) < 60) showPoint(best); else hide();
    });
    area.addEventListener("pointerleave", hide);
    area.addEventListener("blur", hide);
    area.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") hide();
      if (step === undefined) return;
      event.preventDefault();
      const list = isPoints ? points().sort((a, b) => a.at - b.at) : main.at;
      if (!list.length) return;
      current = Math.min(list.length - 1, Math.max(0, current + step));
      if (isPoints) showPoint(list[current]); else showLines(main.at[current]);
    });
    figure.clear = hide;
  }

  function legend(figure, of) {
    if (of.series.length < 2) return;
    for (const key of figure.querySelectorAll(".key")) {
      const number = key.dataset.series;
      const button = make("button", { type: "button", className: key.className, textContent: key.textContent });
      button.setAttribute("aria-pressed", "true");
      button.title = "show or hide";
      button.addEventListener("click", () => {
        const shown = (of.series[number].shown = !of.series[number].shown);
        button.setAttribute("aria-pressed", String(shown));
        for (const group of figure.querySelectorAll(`svg [data-series="${number}"]`)) group.toggleAttribute("hidden", !shown);
        figure.clear();
      });
      key.replaceWith(button);
    }
  }

  function filtered(table) {
    const rows = [...table.tBodies[0].rows];
    const input = make("input", { type: "search", placeholder: "filter " + table.dataset.filter });
    input.setAttribute("aria-label", "Filter " + table.dataset.filter);
    const output = make("output");
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      output.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
    };
    input.addEventListener("input", apply);
    table.closest(".scroll").before(make("div", { className: "filter" }, input, output));
    apply();
  }

  function sorted(table) {
    const value = (row, i) => row.cells[i].dataset.value ?? row.cells[i].textContent;
    // Values in different units cannot be compared; they are grouped by unit.
    const unit = (row, i) => row.cells[i].dataset.unit ?? "";
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sign = down ? -1 : 1;
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const [x, y] = [value(a, i), value(b, i)];
          const both = [x, y].every((v) => v !== "" && Number.isFinite(+v));
          return unit(a, i).localeCompare(unit(b, i)) || sign * (both ? x - y : x.localeCompare(y));
        });
        table.tBodies[0].append(...rows);
      });
      head.replaceChildren(button);
    });
  }

  function theme() {
    const store = { get: () => { try { return localStorage.getItem("dyno-theme"); } catch { return null; } },
      set: (v) => { try { localStorage.setItem("dyno-theme", v); } catch { /* private window */ } } };
    const names = ["system", "light", "dark"];
    let now = names.includes(store.get()) ? store.get() : "system";
    const button = make("button", { type: "button", id: "theme" });
    const apply = () => {
      if (now === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = now;
      button.textContent = "Theme: " + now;
    };
    button.addEventListener("click", () => { now = names[(names.indexOf(now) + 1) % 3]; store.set(now); apply(); });
    apply();
    document.getElementById("tools").append(button);
  }

  function downloads() {
    const summary = document.getElementById("summary");
    if (summary) {
      const button = make("button", { type: "button", textContent: "summary.json" });
      button.addEventListener("click", () => {
        const text = JSON.stringify(JSON.parse(summary.textContent), null, 2) + "\n";
        const link = make("a", { download: "summary.json" });
        link.href = "data:application/json;charset=utf-8," + encodeURIComponent(text);
        link.click();
      });
      document.getElementById("tools").append(button);
    }
    const command = document.getElementById("command");
    if (command && navigator.clipboard) {
      const button = make("button", { type: "button", textContent: "Copy" });
      button.addEventListener("click", () => navigator.clipboard.writeText(command.textContent)
        .then(() => { button.textContent = "Copied"; }, () => getSelection().selectAllChildren(command)));
      command.after(button);
    }
  }

  // One picture of the results, their conditions and the command, for a message or a slide.
  function picture() {
    // A search has many short runs; the picture shows what each search found, and the full runs.
    const searches = [...document.querySelectorAll("main .lead + .pairs")].map((pairs) => pairs.parentElement);
    const tables = [...document.querySelectorAll("main table.stack")];
    const table = tables.find((one) => !searches.some((search) => search.contains(one)));
    if (!table && !searches.length) return;
    const text = (node) => node.textContent.trim().replace(/\s+/g, " ");
    const marked = (words) => words.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
    // Characters of the table have one width, so that columns line up without measuring.
    const [size, advance, line, margin] = [16, 9.7, 26, 40];
    const draw = () => {
      const rows = [...table?.rows ?? []].map((row) => [...row.cells].map(text));
      const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => (row[i] ?? "").length)) + 3);
      const columns = Math.max(80, widths.reduce((a, b) => a + b, 0));
      const wrapped = (words) => words.split(" ").reduce((lines, word) => {
        const last = lines[lines.length - 1];
        if (lines.length && last.length + word.length < columns) lines[lines.length - 1] = last + " " + word;
        else lines.push(word);
        return lines;
      }, []);
      const shown = [];
      let y = margin + 24;
      const put = (words, x, style) => shown.push(`<text x="${Math.round(margin + x * advance)}" y="${y}" ${style}>${marked(words)}</text>`);
      put(text(document.querySelector("h1")), 0, 'font-size="26" font-weight="700"');
      const facts = [...document.querySelectorAll("header .facts span")].map(text).join(" \u00b7 ");
      for (const part of wrapped(facts)) { y += line; put(part, 0, 'fill="#555"'); }
      y += line / 2;
      for (const search of searches) {
        y += line;
        put(text(search.querySelector("h2")), 0, 'font-weight="700"');
        const pairs = [...search.querySelector(".pairs").children].map((pair) => [...pair.children].map(text).join(": "));
        for (const words of [text(search.querySelector(".lead")), ...pairs]) {
          for (const part of wrapped(words)) { y += line; put(part, 0, ""); }
        }
        y += line / 2;
      }
      rows.forEach((row, number) => {
        y += line;
        let x = 0;
        row.forEach((cell, i) => { put(cell, x, number ? "" : 'fill="#555"'); x += widths[i]; });
      });
      y += line / 2;
      const command = document.getElementById("command");
      for (const part of command ? wrapped("$ " + text(command)) : []) { y += line; put(part, 0, ""); }
      y += line;
      put(text(document.querySelector("footer")), 0, 'font-size="13" fill="#555"');
      const [width, height] = [Math.ceil(2 * margin + columns * advance), y + margin];
      // Joined, so that a page holds no address: it loads nothing.
      const namespace = ["http:", "", "www.w3.org", "2000", "svg"].join("/");
      return [width, height, `<svg xmlns="${namespace}" width="${width}" height="${height}" `
        + `viewBox="0 0 ${width} ${height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="${size}" `
        + `fill="#111"><rect width="100%" height="100%" fill="#fff"/>${shown.join("")}</svg>`];
    };
    const save = (url, ending) => {
      const name = document.title.split(":")[0].replace(/[^\w.-]+/g, "-");
      make("a", { download: `dyno-${name}.${ending}`, href: url }).click();
    };
    const encoded = (svg) => "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
    const button = make("button", { type: "button", textContent: "Share picture" });
    button.addEventListener("click", () => {
      const [width, height, svg] = draw();
      const image = make("img", {});
      image.addEventListener("error", () => save(encoded(svg), "svg"));
      image.addEventListener("load", () => {
        try {
          const canvas = make("canvas", { width: 2 * width, height: 2 * height });
          canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
          save(canvas.toDataURL("image/png"), "png");
        } catch {
          save(encoded(svg), "svg");
        }
      });
      image.src = encoded(svg);
    });
    document.getElementById("tools").append(button);
  }

  theme();
  downloads();
  picture();
  document.querySelectorAll("figure.chart").forEach(chart);
  document.querySelectorAll("table.filtered").forEach(filtered);
  document.querySelectorAll("table.sorted").forEach(sorted);
})();
