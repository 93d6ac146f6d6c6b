"use strict";
// Tools, mouse, keys, legend and selection of the scatter plot.
mpda.startScatter = function (element) {
  const { make, button } = mpda;
  const data = mpda.content.scatter;
  const canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": element.getAttribute("aria-label"), "aria-describedby": "scatter-keys" });
  const view = new mpda.ScatterView(data, canvas);
  const rows = new mpda.ScatterRows(data);
  const live = make("p", { class: "hidden", "aria-live": "polite" });
  const selection = make("div", { class: "selection" });
  let mode = "zoom";
  const draw = () => view.draw();
  let isQueued = false; // a mouse sends more events than a screen shows pictures
  function queueDraw() {
    if (isQueued) return;
    isQueued = true;
    requestAnimationFrame(() => { isQueued = false; draw(); });
  }

  // Tools.

  const names = { zoom: "Zoom", rotate: "Rotate", move: "Move", lasso: "Lasso", box: "Box" };
  const modes = Object.fromEntries(Object.entries(names).map(([name, label]) =>
    [name, button(label, () => setMode(name), { "data-mode": name, title: "Drag to " + (name === "lasso" || name === "box" ? "select samples with a " + name : name) })]));
  function setMode(name) {
    mode = name;
    Object.entries(modes).forEach(([key, entry]) => {
      entry.setAttribute("aria-pressed", String(key === name));
      entry.hidden = key === (view.inSpace ? "zoom" : "rotate");
    });
    // A finger scrolls the page unless the reader has chosen a tool that needs both directions.
    canvas.style.touchAction = name === "zoom" ? "pan-y" : "none";
  }
  const zoomBy = (factor) => () => { view.zoom(factor); draw(); };
  const reset = () => { view.reset(); draw(); };
  const tools = make("div", { class: "tools", role: "toolbar", "aria-label": "Tools of the plot" });
  if (data.columns.length > 2) tools.append(dimensionSwitch(), ...axisMenus());
  tools.append(
    make("div", { class: "switch", role: "group", "aria-label": "What dragging does" }, Object.values(modes)),
    make("div", { class: "switch", role: "group", "aria-label": "Zoom" },
      button("+", zoomBy(1.5), { "aria-label": "Zoom in" }), button("−", zoomBy(1 / 1.5), { "aria-label": "Zoom out" }), button("Reset", reset)),
    button("Save PNG", save));

  function dimensionSwitch() {
    const buttons = [false, true].map((inSpace) => button(inSpace ? "3D" : "2D", () => {
      view.inSpace = inSpace;
      buttons.forEach((entry, k) => entry.setAttribute("aria-pressed", String(Boolean(k) === inSpace)));
      tools.querySelector('[data-axis="2"]').parentElement.hidden = !inSpace;
      setMode(inSpace ? "rotate" : "zoom");
      draw();
    }, { "aria-pressed": String(!inSpace) }));
    return make("div", { class: "switch", role: "group", "aria-label": "Dimensions" }, buttons);
  }

  function axisMenus() {
    return [0, 1, 2].map((k) => {
      const menu = make("select", { "data-axis": k, onchange: () => { view.axes[k] = Number(menu.value); draw(); } },
        data.names.map((name, axis) => make("option", { value: axis, selected: axis === k }, name)));
      return make("label", { class: "choice", hidden: k === 2 }, "xyz"[k], " ", menu);
    });
  }

  // The picture with a legend of up to 40 classes.
  function save() {
    const shown = data.labels.map((_, code) => code).filter((code) => view.visible[code]).slice(0, 40);
    const [ratio, side] = [2, 190];
    const picture = make("canvas", { width: (view.width + side) * ratio, height: Math.max(view.height, 22 * shown.length + 20) * ratio });
    const context = picture.getContext("2d");
    view.paint(context, ratio);
    context.globalCompositeOperation = "destination-over";
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = mpda.ink("paper");
    context.fillRect(0, 0, picture.width, picture.height);
    context.globalCompositeOperation = "source-over";
    context.textAlign = "left";
    shown.forEach((code, k) => {
      const [x, y] = [view.width + 16, 20 + 22 * k];
      context.setTransform(5 * ratio, 0, 0, 5 * ratio, x * ratio, y * ratio);
      context.fillStyle = mpda.color(code);
      context.fill(view.paths[code]);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.fillStyle = mpda.ink("ink");
      context.fillText(data.labels[code], x + 14, y + 4, side - 36);
    });
    make("a", { href: picture.toDataURL("image/png"), download: "classes.png" }).click();
  }

  // Legend.

  const entries = data.labels.map((label, code) => {
    const entry = button("", (event) => { if (event.shiftKey) isolate(code); else toggle(code); },
      { "aria-pressed": "true", ondblclick: () => isolate(code), title: label });
    entry.append(mpda.markIcon(code), make("span", {}, label), make("small", {}, String(data.codes.filter((value) => value === code).length)));
    return make("li", {}, entry);
  });
  function setVisible(isVisible) {
    view.visible = data.labels.map((_, code) => isVisible(code));
    entries.forEach((entry, code) => entry.firstChild.setAttribute("aria-pressed", String(view.visible[code])));
    draw();
  }
  const toggle = (code) => setVisible((other) => (other === code ? !view.visible[code] : view.visible[other]));
  const isolate = (code) => {
    const alone = view.visible.every((isVisible, other) => isVisible === (other === code));
    setVisible((other) => alone || other === code);
  };
  const search = make("input", { type: "search", placeholder: "Search classes", "aria-label": "Search classes", oninput: () => {
    const text = search.value.trim().toLowerCase();
    entries.forEach((entry, code) => { entry.hidden = !data.labels[code].toLowerCase().includes(text); });
  }, onkeydown: (event) => { if (event.key === "Enter") showMatches(); } });
  const showMatches = () => setVisible((code) => !entries[code].hidden);
  const legend = make("div", { class: "legend" },
    data.labels.length >= 8 ? search : null,
    make("div", { class: "switch", role: "group", "aria-label": "Classes" },
      button("All", () => setVisible(() => true)), button("None", () => setVisible(() => false)),
      data.labels.length >= 8 ? button("Only found", showMatches, { title: "Show only the classes in the list" }) : null),
    make("ul", { tabindex: 0, "aria-label": "Classes; a button shows or hides its class" }, entries));

  // Selection.

  function select(indices) {
    view.selected = new Set(indices);
    draw();
    if (!indices.length) {
      selection.replaceChildren();
      live.textContent = "Nothing is selected.";
      return;
    }
    const n = indices.length, wrong = data.wrong ? indices.filter((i) => data.wrong[i]).length : 0;
    const text = n + (n === 1 ? " sample is selected" : " samples are selected") + (data.wrong ? "; 1-NN gets " + wrong + " wrong." : ".");
    const copy = button("Copy", () => mpda.copyText(rows.text(indices), copy));
    selection.replaceChildren(make("div", { class: "bar" }, make("h3", {}, text), make("span", {}, copy, " ", button("Clear", () => select([])))), rows.table(indices));
    live.textContent = text;
  }
  const flip = (i) => select(view.selected.has(i) ? [...view.selected].filter((other) => other !== i) : [...view.selected, i]);

  // Mouse and touch.

  let start = null, last = null;
  const position = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const rectangle = ([xa, ya], [xb, yb]) => [[xa, ya], [xb, ya], [xb, yb], [xa, yb]];
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    start = last = position(event);
    view.outline = mode === "lasso" ? [start] : null;
    mpda.hideTip();
  });
  canvas.addEventListener("pointermove", (event) => {
    const point = position(event);
    if (!start) {
      const i = view.nearest(...point);
      canvas.style.cursor = i < 0 ? "" : "pointer";
      if (i < 0) mpda.hideTip(); else mpda.showTip(event.clientX, event.clientY, rows.tip(i));
      return;
    }
    const [dx, dy] = [point[0] - last[0], point[1] - last[1]];
    last = point;
    if (mode === "lasso") view.outline.push(point);
    else if (mode === "move") view.move(dx, dy);
    else if (mode === "rotate") view.rotate(dx, dy);
    else view.outline = rectangle(start, point);
    queueDraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!start) return;
    const [from, point, corners] = [start, position(event), view.outline];
    start = view.outline = null;
    const isClick = Math.hypot(point[0] - from[0], point[1] - from[1]) < 4 && !(corners && corners.length > 9);
    if (isClick) {
      const i = view.nearest(...point);
      if (i >= 0) flip(i);
    } else if (mode === "lasso" || mode === "box") select(view.inside(corners));
    else if (mode === "zoom") view.zoomTo(from, point);
    draw();
  });
  canvas.addEventListener("pointercancel", () => { start = view.outline = null; draw(); });
  canvas.addEventListener("pointerleave", mpda.hideTip);
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !view.inSpace) return; // the wheel scrolls the page
    event.preventDefault();
    view.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, ...position(event));
    draw();
  }, { passive: false });

  // Keys.

  function step(direction) {
    const shown = Array.from({ length: view.n }, (_, i) => i).filter((i) => view.isShown(i) && view.isInFrame(i));
    if (!shown.length) return;
    view.focus = shown[(shown.indexOf(view.focus) + direction + shown.length) % shown.length];
    draw();
    const box = canvas.getBoundingClientRect();
    mpda.showTip(box.left + view.screen.x[view.focus], box.top + view.screen.y[view.focus], rows.tip(view.focus));
    live.textContent = rows.say(view.focus);
  }
  const go = (dx, dy) => { if (view.inSpace) view.rotate(dx, dy); else view.move(-dx, -dy); draw(); };
  const keys = {
    ArrowLeft: () => go(-30, 0), ArrowRight: () => go(30, 0), ArrowUp: () => go(0, -30), ArrowDown: () => go(0, 30),
    "+": zoomBy(1.25), "-": zoomBy(0.8), 0: reset, n: () => step(1), p: () => step(-1),
    Enter: () => { if (view.focus >= 0) flip(view.focus); }, Escape: () => { mpda.hideTip(); view.focus = -1; select([]); },
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("blur", () => { mpda.hideTip(); view.focus = -1; draw(); });

  const help = "Keys in the plot: arrows move or turn it, + and − zoom, 0 resets; n and p go to the next and previous sample, Enter selects it, Escape clears.";
  element.append(tools, make("div", { class: "stage" }, make("div", {}, canvas), legend),
    make("p", { class: "how keys-help", id: "scatter-keys" }, help), rows.chooser(() => select([...view.selected])) || "", live, selection);
  setMode("zoom");
  draw();
  mpda.redraws.push(draw);
  new ResizeObserver(() => { if (canvas.parentElement.clientWidth !== view.width) draw(); }).observe(canvas.parentElement);
  element.view = view; // for tests and for the console
};
