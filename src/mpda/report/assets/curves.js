"use strict";
// Error against the number of components, as SVG.
mpda.startCurves = function (element) {
  const { make } = mpda;
  const { curves, measure, upper, longest } = mpda.content.curves[element.id];
  const hidden = new Set();
  const DASHES = ["", "7 4", "8 4 2 4", "2 4"];
  const look = (curve) => (curve.level ? "var(--soft)" : mpda.variable(curve.style));
  const svg = make("svg", { tabindex: 0, role: "img", "aria-label": element.getAttribute("aria-label") });
  const stage = make("div", {}, svg);
  const live = make("p", { class: "hidden", "aria-live": "polite" });
  const counts = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  let at = -1; // index of the number of components whose errors are shown
  let box = null, x = null; // place of the axes, and pixels of a number of components

  const legend = make("ul", { class: "lines" }, curves.map((curve, k) => {
    const entry = mpda.button("", () => {
      if (hidden.has(k)) hidden.delete(k); else hidden.add(k);
      entry.setAttribute("aria-pressed", String(!hidden.has(k)));
      draw();
    }, { "aria-pressed": "true" });
    entry.append(make("svg", { viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true" }, line(curve, "M1 6H29")), make("span", {}, curve.name));
    return make("li", {}, entry);
  }));

  function line(curve, d) {
    return make("path", { d, fill: "none", stroke: look(curve), "stroke-width": curve.level ? 1.6 : 2.2, "stroke-dasharray": DASHES[curve.dash] || null });
  }

  function draw() {
    const width = stage.clientWidth || 600, height = width < 620 ? 280 : 380;
    box = { left: 48, top: 10, right: width - 12, bottom: height - 42 };
    x = (value) => box.left + (value / longest) * (box.right - box.left);
    const y = (value) => Math.max(box.top - 20, box.bottom - (value / upper) * (box.bottom - box.top));
    const text = (content, attributes) => make("text", { fill: "var(--soft)", "font-size": 12.5, ...attributes }, content);
    svg.replaceChildren();
    Object.entries({ viewBox: "0 0 " + width + " " + height, width, height }).forEach(([name, value]) => svg.setAttribute(name, value));
    mpda.ticks(0, upper, 5).forEach((value) => svg.append(
      make("line", { x1: box.left, x2: box.right, y1: y(value), y2: y(value), stroke: "var(--grid)" }),
      text(String(value), { x: box.left - 7, y: y(value) + 4, "text-anchor": "end" })));
    mpda.ticks(0, longest, Math.min(longest, 10)).filter(Number.isInteger).forEach((value) =>
      svg.append(text(String(value), { x: x(value), y: box.bottom + 17, "text-anchor": "middle" })));
    svg.append(text("number of components", { x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }),
      text(measure, { transform: "translate(13 " + (box.top + box.bottom) / 2 + ") rotate(-90)", "text-anchor": "middle" }));
    const known = (values) => values.map((value, i) => [value, i]).filter(([value]) => value !== null);
    const trace = (curve, values) => known(values).map(([value, i]) => x(curve.x[i]).toFixed(1) + " " + y(value).toFixed(1));
    const group = make("g", {});
    curves.forEach((curve, k) => {
      if (hidden.has(k)) return;
      if (curve.level) {
        group.append(line(curve, "M" + box.left + " " + y(curve.y[0]) + "H" + box.right));
        return;
      }
      if (curve.low) {
        const band = [...trace(curve, curve.low), ...trace(curve, curve.high).reverse()];
        if (band.length) group.append(make("path", { d: "M" + band.join("L") + "Z", fill: look(curve), opacity: 0.13 }));
      }
      group.append(line(curve, "M" + trace(curve, curve.y).join("L")));
      const marked = (d, px, py, size, rim) => make("path", { d, fill: look(curve), stroke: rim, "stroke-width": 2 / size, transform: "translate(" + px + " " + py + ") scale(" + size + ")" });
      if (curve.x.length <= 40) known(curve.y).forEach(([value, i]) => group.append(marked(mpda.mark(curve.style), x(curve.x[i]), y(value), 3.4, "none")));
      if (curve.selected) group.append(marked(mpda.mark(curve.style), x(curve.selected[0]), y(curve.selected[1]), 6.5, "var(--ink)"));
    });
    svg.append(group);
    if (at >= 0) svg.append(make("line", { x1: x(counts[at]), x2: x(counts[at]), y1: box.top, y2: box.bottom, stroke: "var(--soft)", "stroke-dasharray": "3 3" }));
  }

  svg.addEventListener("pointermove", (event) => {
    if (!counts.length) return;
    const value = ((event.clientX - svg.getBoundingClientRect().left - box.left) / (box.right - box.left)) * longest;
    const best = counts.reduce((a, b, i) => (Math.abs(b - value) < Math.abs(counts[a] - value) ? i : a), 0);
    show(best, event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", () => show(-1));
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !counts.length) return;
    event.preventDefault();
    const next = Math.min(counts.length - 1, Math.max(0, at + step));
    const corner = svg.getBoundingClientRect();
    show(next, corner.left + x(counts[next]), corner.top + box.top);
    live.textContent = describe(next).join(", ");
  });

  function describe(i) {
    const lines = [counts[i] + (counts[i] === 1 ? " component" : " components")];
    curves.forEach((curve, k) => {
      const j = curve.level ? 0 : curve.x.indexOf(counts[i]);
      if (hidden.has(k) || j < 0 || curve.y[j] === null) return;
      const interval = curve.low && curve.low[j] !== null ? " (" + curve.low[j].toFixed(1) + " to " + curve.high[j].toFixed(1) + ")" : "";
      lines.push(curve.name + ": " + curve.y[j].toFixed(2) + " %" + interval);
    });
    return lines;
  }

  function show(i, clientX, clientY) {
    if (i < 0) mpda.hideTip();
    else {
      const [first, ...others] = describe(i);
      mpda.showTip(clientX, clientY, [make("b", {}, first), ...others.map((text) => make("div", {}, text))]);
    }
    if (i === at) return;
    at = i;
    draw();
  }

  element.append(stage, legend, live);
  draw();
  let width = stage.clientWidth;
  new ResizeObserver(() => { if (stage.clientWidth && stage.clientWidth !== width) { width = stage.clientWidth; draw(); } }).observe(stage);
};
