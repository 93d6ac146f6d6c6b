"use strict";
// Samples in two or three components on a canvas: projection and drawing.
mpda.ScatterView = class {
  constructor(data, canvas) {
    this.data = data;
    this.canvas = canvas;
    this.n = data.codes.length;
    this.axes = [0, 1, 2].slice(0, Math.max(2, Math.min(3, data.columns.length)));
    this.inSpace = false;
    this.visible = data.labels.map(() => true);
    this.selected = new Set();
    this.focus = -1;
    this.outline = null; // corners of the lasso or box that is being drawn
    this.screen = { x: new Float32Array(this.n), y: new Float32Array(this.n), depth: new Float32Array(this.n) };
    this.paths = data.labels.map((_, code) => new Path2D(mpda.mark(code)));
    // Radius in pixels: 4.5 up to 100 samples, one less for every factor of ten.
    this.radius = Math.max(2.4, 4.5 - Math.log10(Math.max(this.n, 100) / 100));
    this.limits = data.columns.map((column) => {
      const values = column.filter((value) => value !== null);
      const low = values.reduce((a, b) => Math.min(a, b), Infinity);
      const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
      const margin = 0.04 * (high - low) || 1;
      return values.length ? [low - margin, high + margin] : [-1, 1];
    });
    this.reset();
  }

  reset() {
    // In the plane the view is a rectangle in units of the limits, in space a rotation.
    this.window = [0, 1, 0, 1];
    this.turn = { yaw: 0.7, pitch: 0.45, zoom: 1, x: 0, y: 0 };
  }

  isShown(i) {
    return this.visible[this.data.codes[i]] && !Number.isNaN(this.screen.x[i]);
  }

  resize(ratio) {
    this.width = this.canvas.parentElement.clientWidth;
    this.height = this.width < 620 ? 360 : 520;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = this.height + "px";
    this.ratio = ratio;
    this.frame = { left: 30, top: 8, right: this.width - 8, bottom: this.height - 30 };
  }

  // Coordinates of a point whose axes run from 0 to 1, in pixels.
  place(u, v, w) {
    const { left, top, right, bottom } = this.frame;
    if (!this.inSpace) {
      const [u0, u1, v0, v1] = this.window;
      return [left + ((u - u0) / (u1 - u0)) * (right - left), bottom - ((v - v0) / (v1 - v0)) * (bottom - top), 0];
    }
    const { yaw, pitch, zoom, x, y } = this.turn;
    const [a, b, c] = [2 * u - 1, 2 * v - 1, 2 * w - 1];
    const across = a * Math.cos(yaw) - b * Math.sin(yaw);
    const away = a * Math.sin(yaw) + b * Math.cos(yaw);
    const height = c * Math.cos(pitch) - away * Math.sin(pitch);
    const depth = c * Math.sin(pitch) + away * Math.cos(pitch);
    // A camera at distance 6 gives a slight perspective.
    const scale = (zoom * 0.24 * Math.min(right - left, 1.2 * (bottom - top)) * 6) / (6 + depth);
    return [(left + right) / 2 + x + across * scale, (top + bottom) / 2 + y - height * scale, depth];
  }

  project() {
    const columns = this.axes.map((axis) => this.data.columns[axis]);
    const limits = this.axes.map((axis) => this.limits[axis]);
    const unit = (k, i) => (columns[k][i] === null ? NaN : (columns[k][i] - limits[k][0]) / (limits[k][1] - limits[k][0]));
    for (let i = 0; i < this.n; i += 1) {
      const [x, y, depth] = this.place(unit(0, i), unit(1, i), this.inSpace ? unit(2, i) : 0);
      this.screen.x[i] = x;
      this.screen.y[i] = y;
      this.screen.depth[i] = depth;
    }
  }

  // Far samples first; in the plane errors last, so that they lie on top.
  order() {
    const indices = Array.from({ length: this.n }, (_, i) => i).filter((i) => this.isShown(i));
    const { wrong } = this.data, { depth } = this.screen;
    if (this.inSpace) return indices.sort((i, j) => depth[j] - depth[i]);
    return wrong ? indices.filter((i) => !wrong[i]).concat(indices.filter((i) => wrong[i])) : indices;
  }

  draw(ratio = window.devicePixelRatio || 1) {
    this.resize(ratio);
    this.project();
    this.paint(this.canvas.getContext("2d"), ratio);
  }

  paint(context, ratio) {
    const colors = this.data.labels.map((_, code) => mpda.color(code));
    const [ink, paper] = [mpda.ink("ink"), mpda.ink("paper")];
    const { left, top, right, bottom } = this.frame;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.paintAxes(context);
    context.save();
    context.beginPath();
    context.rect(left, top, right - left, bottom - top);
    context.clip();
    for (const i of this.order()) {
      const wrong = this.data.wrong && this.data.wrong[i];
      const size = this.radius * (wrong ? 1.3 : 1);
      context.setTransform(ratio * size, 0, 0, ratio * size, ratio * this.screen.x[i], ratio * this.screen.y[i]);
      context.globalAlpha = this.selected.size && !this.selected.has(i) ? 0.15 : 0.9;
      const path = this.paths[this.data.codes[i]];
      context.fillStyle = colors[this.data.codes[i]];
      context.fill(path);
      context.strokeStyle = wrong ? ink : paper;
      context.lineWidth = (wrong ? 1.6 : 0.5) / size;
      context.stroke(path);
    }
    context.restore();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    if (this.focus >= 0 && this.isShown(this.focus)) {
      context.strokeStyle = mpda.ink("accent");
      context.lineWidth = 2.5;
      context.beginPath();
      context.arc(this.screen.x[this.focus], this.screen.y[this.focus], this.radius + 6, 0, 7);
      context.stroke();
    }
    if (this.outline) {
      context.strokeStyle = mpda.ink("accent");
      context.lineWidth = 1.5;
      context.setLineDash([5, 4]);
      context.beginPath();
      this.outline.forEach(([x, y]) => context.lineTo(x, y));
      context.closePath();
      context.stroke();
      context.setLineDash([]);
    }
  }

  paintAxes(context) {
    const { left, top, right, bottom } = this.frame;
    const names = this.axes.map((axis) => this.data.names[axis] || "");
    context.font = "13px " + getComputedStyle(document.body).fontFamily;
    context.fillStyle = mpda.ink("soft");
    context.strokeStyle = mpda.ink("grid");
    context.lineWidth = 1;
    context.textAlign = "center";
    if (this.inSpace) {
      // The names stand at the ends of three edges, which lie outside in the first view.
      [[1.13, 0, 0], [0, 1.13, 0], [0, 1, 1.13]].forEach((end, k) => {
        for (const [s, t] of [[0, 0], [0, 1], [1, 0], [1, 1]]) {
          context.beginPath();
          context.moveTo(...this.place(...[s, t].slice(0, k), 0, ...[s, t].slice(k)).slice(0, 2));
          context.lineTo(...this.place(...[s, t].slice(0, k), 1, ...[s, t].slice(k)).slice(0, 2));
          context.stroke();
        }
        const [x, y] = this.place(...end);
        context.fillText(names[k], x, y);
      });
      return;
    }
    const [u0, u1, v0, v1] = this.window;
    const [[x0, x1], [y0, y1]] = this.axes.slice(0, 2).map((axis) => this.limits[axis]);
    context.beginPath();
    for (const value of mpda.ticks(x0 + u0 * (x1 - x0), x0 + u1 * (x1 - x0), 7)) {
      const [x] = this.place((value - x0) / (x1 - x0), 0);
      context.moveTo(x, top);
      context.lineTo(x, bottom);
    }
    for (const value of names[1] ? mpda.ticks(y0 + v0 * (y1 - y0), y0 + v1 * (y1 - y0), 6) : []) {
      const [, y] = this.place(0, (value - y0) / (y1 - y0));
      context.moveTo(left, y);
      context.lineTo(right, y);
    }
    context.stroke();
    context.fillText(names[0], (left + right) / 2, bottom + 20);
    context.save();
    context.translate(left - 12, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(names[1], 0, 0);
    context.restore();
  }

  // Zoom by a factor around a point in pixels.
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    if (this.inSpace) {
      this.turn.zoom = Math.min(40, Math.max(0.2, this.turn.zoom * factor));
      return;
    }
    const { left, top, right, bottom } = this.frame;
    const [u0, u1, v0, v1] = this.window;
    const [u, v] = [u0 + ((x - left) / (right - left)) * (u1 - u0), v0 + ((bottom - y) / (bottom - top)) * (v1 - v0)];
    this.window = [u + (u0 - u) / factor, u + (u1 - u) / factor, v + (v0 - v) / factor, v + (v1 - v) / factor];
  }

  move(dx, dy) {
    if (this.inSpace) {
      this.turn.x += dx;
      this.turn.y += dy;
      return;
    }
    const { left, top, right, bottom } = this.frame;
    const [u0, u1, v0, v1] = this.window;
    const [du, dv] = [(-dx / (right - left)) * (u1 - u0), (dy / (bottom - top)) * (v1 - v0)];
    this.window = [u0 + du, u1 + du, v0 + dv, v1 + dv];
  }

  rotate(dx, dy) {
    this.turn.yaw += dx * 0.01;
    this.turn.pitch = Math.min(1.57, Math.max(-1.57, this.turn.pitch + dy * 0.01));
  }

  // Show the rectangle between two points in pixels.
  zoomTo([xa, ya], [xb, yb]) {
    const { left, top, right, bottom } = this.frame;
    const [u0, u1, v0, v1] = this.window;
    const us = [xa, xb].map((x) => u0 + ((x - left) / (right - left)) * (u1 - u0)).sort((a, b) => a - b);
    const vs = [ya, yb].map((y) => v0 + ((bottom - y) / (bottom - top)) * (v1 - v0)).sort((a, b) => a - b);
    this.window = [...us, ...vs];
  }

  isInFrame(i) {
    const { left, top, right, bottom } = this.frame;
    const [x, y] = [this.screen.x[i], this.screen.y[i]];
    return x >= left && x <= right && y >= top && y <= bottom;
  }

  // Index of the sample at most 14 pixels away, or -1.
  nearest(x, y) {
    let best = -1, least = 14 ** 2;
    for (let i = 0; i < this.n; i += 1) {
      if (!this.isShown(i) || !this.isInFrame(i)) continue;
      const distance = (this.screen.x[i] - x) ** 2 + (this.screen.y[i] - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  // Samples inside a polygon in pixels, by the even-odd rule.
  inside(corners) {
    const indices = [];
    for (let i = 0; i < this.n; i += 1) {
      if (!this.isShown(i) || !this.isInFrame(i)) continue;
      const [x, y] = [this.screen.x[i], this.screen.y[i]];
      let odd = false;
      corners.forEach(([xa, ya], k) => {
        const [xb, yb] = corners[(k || corners.length) - 1];
        if (ya > y !== yb > y && x < ((xb - xa) * (y - ya)) / (yb - ya) + xa) odd = !odd;
      });
      if (odd) indices.push(i);
    }
    return indices;
  }
};
