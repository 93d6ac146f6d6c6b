"use strict";
// Shared by all charts: the data of the page, colours, marks, elements, the tooltip.
const mpda = (function () {
  const root = document.documentElement;
  const content = JSON.parse(document.getElementById("content").textContent);
  const redraws = []; // functions that draw a chart again, after a change of the theme

  function polygon(n, radius, start, inner) {
    const steps = inner ? 2 * n : n;
    const corners = Array.from({ length: steps }, (_, i) => {
      const r = inner && i % 2 ? inner : radius;
      const angle = start + (2 * Math.PI * i) / steps;
      return (r * Math.cos(angle)).toFixed(3) + " " + (r * Math.sin(angle)).toFixed(3);
    });
    return "M" + corners.join("L") + "Z";
  }

  function cross(turn) {
    const a = 0.42, b = 1.12;
    const corners = [[-a, -b], [a, -b], [a, -a], [b, -a], [b, a], [a, a], [a, b], [-a, b], [-a, a], [-b, a], [-b, -a], [-a, -a]];
    const [c, s] = [Math.cos(turn), Math.sin(turn)];
    return "M" + corners.map(([x, y]) => (c * x - s * y).toFixed(3) + " " + (s * x + c * y).toFixed(3)).join("L") + "Z";
  }

  // Marks of about equal area, in the order of MARKERS in mpda.plotting.styles.
  const up = -Math.PI / 2;
  const MARKS = [
    "M0.95 0A0.95 0.95 0 1 1 -0.95 0A0.95 0.95 0 1 1 0.95 0Z", "M-0.84 -0.84L0.84 -0.84L0.84 0.84L-0.84 0.84Z",
    polygon(3, 1.32, up), polygon(4, 1.2, up), polygon(3, 1.32, -up), cross(0), cross(Math.PI / 4),
    polygon(3, 1.32, Math.PI), polygon(3, 1.32, 0), polygon(5, 1.08, up), polygon(5, 1.4, up, 0.6),
  ];

  const colors = () => content.colors[root.dataset.theme === "dark" ? "dark" : "light"];
  const color = (code) => colors()[code % colors().length];
  const mark = (code) => MARKS[code % MARKS.length];
  const variable = (code) => "var(--class-" + (code % colors().length) + ")";
  const ink = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  function applyTheme(theme) {
    root.dataset.theme = theme;
    colors().forEach((value, i) => root.style.setProperty("--class-" + i, value));
    redraws.forEach((redraw) => redraw());
  }

  // Text from the data is only ever set as text, never as HTML.
  function make(tag, attributes, ...children) {
    const isSvg = ["svg", "g", "path", "line", "circle", "text", "rect"].includes(tag);
    const element = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    Object.entries(attributes || {}).forEach(([name, value]) => {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    });
    element.append(...children.flat().filter((child) => child !== null));
    return element;
  }

  function markIcon(code) {
    return make("svg", { viewBox: "-1.6 -1.6 3.2 3.2", width: 15, height: 15, "aria-hidden": "true" },
      make("path", { d: mark(code), fill: variable(code) }));
  }

  const button = (label, onclick, more) => make("button", { type: "button", onclick, ...more }, label);

  // The tooltip is hidden from screen readers; charts announce what keys show in a live region.
  const tip = make("div", { id: "tip", hidden: true, "aria-hidden": "true" });
  document.body.append(tip);

  function showTip(x, y, nodes) {
    tip.replaceChildren(...nodes);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 16 + width > window.innerWidth ? x - 16 - width : x + 16;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(y + 12, window.innerHeight - height - 4)) + "px";
  }

  const hideTip = () => { tip.hidden = true; };

  async function copyText(text, element) {
    const label = element.textContent;
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", { style: "position:fixed;opacity:0" }); // pages of local files may lack the clipboard
      document.body.append(area);
      area.value = text;
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    element.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => { element.textContent = label; }, 1600);
  }

  // Steps of 1, 2 or 5 times a power of ten, about n of them.
  function ticks(low, high, n) {
    const raw = (high - low) / n || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
    const values = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) values.push(Number((i * step).toPrecision(12)));
    return values;
  }

  return { content, redraws, color, mark, variable, ink, applyTheme, make, markIcon, button, showTip, hideTip, copyText, ticks };
})();
