"use strict";
(function () {
  const root = document.documentElement;
  const content = JSON.parse(document.getElementById("content").textContent);
  const drawn = new Map(); // element -> name of the chart in it
  const NARROW = 620;

  // Theme: the choice of the reader, otherwise that of the system.

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = (function () {
    try { return window.localStorage.getItem("mpda-theme"); } catch { return null; } // may be forbidden for local files
  })();
  let override = stored === "light" || stored === "dark" ? stored : null;

  function applyTheme(theme) {
    root.dataset.theme = theme;
    document.getElementById("theme").setAttribute("aria-pressed", String(theme === "dark"));
    drawn.forEach((name, element) => draw(element, name));
  }

  const currentTheme = () => override || (system.matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => {
    override = root.dataset.theme === "dark" ? "light" : "dark";
    try { window.localStorage.setItem("mpda-theme", override); } catch { /* not stored, valid for this visit */ }
    applyTheme(override);
  });
  system.addEventListener("change", () => applyTheme(currentTheme()));

  // Colours: names that begin with @ are replaced by those of the theme.

  const NAMED = /color$/;

  function color(name) {
    const [key, opacity] = name.slice(1).split("/");
    const style = getComputedStyle(root);
    const dark = root.dataset.theme === "dark";
    let value = /^\d+$/.test(key) ? content.colors[Number(key)] : style.getPropertyValue("--" + key).trim();
    if (value === "#000000" && dark) value = "#f5f5f5";
    if (opacity === undefined) return value;
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16));
    return "rgba(" + r + "," + g + "," + b + "," + opacity + ")";
  }

  function themed(value, key) {
    if (Array.isArray(value)) {
      // Lists of numbers hold no colours.
      return typeof value[0] === "number" ? value : value.map((entry) => themed(entry, key));
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, k)]));
    }
    return typeof value === "string" && value[0] === "@" && NAMED.test(key) ? color(value) : value;
  }

  // Figures.

  const webgl = (function () {
    try {
      const canvas = document.createElement("canvas");
      return Boolean(canvas.getContext("webgl2") || canvas.getContext("webgl"));
    } catch { return false; }
  })();

  function figure(name, width) {
    const chart = content.charts[name];
    const narrow = width < NARROW;
    const data = themed(chart.data, "").map((trace) =>
      trace.type === "scattergl" && !webgl ? { ...trace, type: "scatter" } : trace);
    const layout = {
      ...themed(chart.layout, ""),
      height: narrow ? Math.min(chart.height, 430) : chart.height,
      margin: { l: 10, r: 10, t: narrow ? 10 : 34, b: 10 }, // room for the tools
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: color("@ink") },
      hoverlabel: { bgcolor: color("@paper"), bordercolor: color("@line"), font: { color: color("@ink") }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: color("@soft"), activecolor: color("@accent") },
      uirevision: name, // zoom and hidden classes survive a change of theme
    };
    layout.legend = { ...layout.legend, ...(narrow ? { orientation: "h", y: layout.scene ? 0 : -0.2, yanchor: "top" } : {}) };
    if (layout.scene) layout.margin = { l: 0, r: 0, t: 0, b: 0 };
    const config = { responsive: true, displaylogo: false, plotlyServerURL: "" };
    // plotly's default buttons include one that uploads the data.
    config.modeBarButtons = layout.scene
      ? [["toImage"], ["orbitRotation", "pan3d", "zoom3d"], ["resetCameraDefault3d"]]
      : [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]];
    config.displayModeBar = !narrow;
    return { data, layout, config };
  }

  function draw(element, name) {
    drawn.set(element, name);
    const plot = figure(name, element.clientWidth || window.innerWidth);
    element.dataset.narrow = String(element.clientWidth < NARROW);
    element.style.height = plot.layout.height + "px"; // plotly reads it when the window is resized
    return window.Plotly.react(element, plot.data, plot.layout, plot.config);
  }

  // Charts are drawn when they are about to become visible.
  const watcher = "IntersectionObserver" in window
    ? new IntersectionObserver((entries) => entries.forEach((entry) => {
        if (entry.isIntersecting) { watcher.unobserve(entry.target); show(entry.target, entry.target.id); }
      }), { rootMargin: "600px" })
    : null;

  function show(element, name) {
    if (drawn.get(element) !== name) draw(element, name);
  }

  function start() {
    root.dataset.theme = currentTheme();
    document.querySelectorAll(".chart").forEach((element) => {
      if (element.hidden) return;
      if (watcher) watcher.observe(element); else show(element, element.id);
    });
    applyTheme(currentTheme());
  }

  // Views and choices.

  const space = document.querySelector('[data-view="embedding-space"]');
  if (space && !webgl) {
    space.disabled = true;
    document.getElementById("no-space").hidden = false;
  }
  document.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => {
    button.parentElement.querySelectorAll("[data-view]").forEach((other) => {
      const on = other === button;
      other.setAttribute("aria-pressed", String(on));
      document.getElementById(other.dataset.view).hidden = !on;
    });
    show(document.getElementById(button.dataset.view), button.dataset.view);
  }));

  const problem = document.getElementById("curve-choice");
  if (problem) problem.addEventListener("change", () => {
    Array.from(problem.options).forEach((option) => {
      const on = option.value === problem.value;
      document.getElementById(option.value).hidden = !on;
      document.querySelector('[data-with="' + option.value + '"]').hidden = !on;
    });
    show(document.getElementById(problem.value), problem.value);
  });

  const copy = document.getElementById("copy");
  if (copy) copy.addEventListener("click", async () => {
    const code = document.getElementById("command");
    let done = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      window.getSelection().selectAllChildren(code); // fallback: the reader can press Ctrl+C
      done = document.execCommand("copy");
    }
    copy.textContent = done ? "Copied" : "Selected";
    setTimeout(() => { copy.textContent = "Copy"; }, 1600);
  });

  // Narrow screens and printing.

  window.addEventListener("resize", () => drawn.forEach((name, element) => {
    const narrow = String(element.clientWidth < NARROW);
    if (!element.hidden && narrow !== element.dataset.narrow) draw(element, name);
  }));
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll(".chart").forEach((element) => { if (!element.hidden) show(element, element.id); });
    applyTheme("light");
  });
  window.addEventListener("afterprint", () => applyTheme(currentTheme()));

  start();
})();
