"use strict";
// Patches of one class, which the reader chooses, in the plane of its first principal components.
mpda.startPatches = function (element) {
  const { make } = mpda;
  const classes = mpda.content.patches;
  const menu = make("select", { onchange: () => draw() }, classes.map((entry, k) => make("option", { value: k }, entry.label)));
  const stage = make("div", {});
  const text = make("p", { class: "how", "aria-live": "polite" });

  // Corners of the convex hull (monotone chain).
  function hull(points) {
    const sorted = [...points].sort((p, q) => p[0] - q[0] || p[1] - q[1]);
    const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
    const chain = (list) => list.reduce((corners, point) => {
      while (corners.length > 1 && turn(corners.at(-2), corners.at(-1), point) <= 0) corners.pop();
      return [...corners, point];
    }, []);
    return [...chain(sorted).slice(0, -1), ...chain(sorted.reverse()).slice(0, -1)];
  }

  function draw() {
    const entry = classes[Number(menu.value)];
    const width = stage.clientWidth || 400;
    const ends = entry.lines.flatMap(([a, b]) => [a, b]);
    const range = (k) => [...entry.points, ...ends].reduce(([low, high], point) => [Math.min(low, point[k]), Math.max(high, point[k])], [Infinity, -Infinity]);
    const [[x0, x1], [y0, y1]] = [range(0), range(1)];
    // One scale for both axes: angles between tangent lines are meaningful.
    const scale = Math.min((width - 40) / (x1 - x0 || 1), 380 / (y1 - y0 || 1));
    const height = Math.round(Math.max(230, (y1 - y0) * scale + 64));
    const place = ([x, y]) => [width / 2 + (x - (x0 + x1) / 2) * scale, (height - 24) / 2 - (y - (y0 + y1) / 2) * scale];
    const svg = make("svg", { viewBox: "0 0 " + width + " " + height, width, height, role: "img", "aria-label": "Patches of class " + entry.label });
    const groups = entry.lines.map((line, patch) => {
      const color = mpda.variable(patch);
      const points = entry.points.filter((_, i) => entry.patches[i] === patch).map(place);
      const path = (corners) => "M" + corners.map((point) => point.map((value) => value.toFixed(1)).join(" ")).join("L");
      const corners = points.length > 2 ? hull(points) : points;
      const group = make("g", { class: "patch" },
        make("path", { d: path(corners) + "Z", fill: color, stroke: color, opacity: 0.16, "stroke-width": 11, "stroke-linejoin": "round", "stroke-linecap": "round" }),
        make("path", { d: path(line.map(place)), stroke: color, "stroke-width": 1.6 }),
        points.map(([cx, cy]) => make("circle", { cx, cy, r: 2.6, fill: color })));
      const linearity = entry.linearity[patch];
      group.addEventListener("pointermove", (event) => mpda.showTip(event.clientX, event.clientY, [
        make("b", {}, "patch " + (patch + 1)), make("div", {}, points.length + (points.length === 1 ? " sample" : " samples")),
        ...(linearity === null || linearity === undefined ? [] : [make("div", {}, "linearity " + linearity.toFixed(3))])]));
      group.addEventListener("pointerleave", mpda.hideTip);
      return group;
    });
    const label = (content, attributes) => make("text", { fill: "var(--soft)", "font-size": 12.5, "text-anchor": "middle", ...attributes }, content);
    svg.append(...groups, label("first principal component", { x: width / 2, y: height - 8 }),
      label("second principal component", { transform: "translate(12 " + (height - 24) / 2 + ") rotate(-90)" }));
    stage.replaceChildren(svg);
    const n = entry.lines.length;
    text.textContent = "Class " + entry.label + ": " + (entry.n_patches > n ? n + " of " + entry.n_patches : n) + (entry.n_patches === 1 ? " patch with its tangent line; " : " patches, each in one colour with its tangent line; ") +
      entry.points.length + " samples in the first two principal components of the class.";
  }

  element.append(make("label", { class: "choice" }, "Class ", menu), stage, text);
  draw();
  let width = stage.clientWidth;
  new ResizeObserver(() => { if (stage.clientWidth && stage.clientWidth !== width) { width = stage.clientWidth; draw(); } }).observe(stage);
};
