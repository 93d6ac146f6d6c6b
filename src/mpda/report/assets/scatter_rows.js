"use strict";
// Words and pictures for single samples: hover text, and the table of selected rows.
mpda.ScatterRows = class {
  constructor(data) {
    this.data = data;
    this.hover = data.hover || {};
    this.features = this.hover.features || [];
    this.chosen = new Set(this.features.slice(0, 3).map((_, k) => k));
    if (this.hover.images) {
      this.sprite = new Image();
      this.sprite.src = this.hover.images.source;
    }
  }

  // Pairs of a name and a text.
  describe(i) {
    const { data, hover } = this;
    const pairs = [["row", String(data.rows[i])], ["class", data.labels[data.codes[i]]]];
    if (data.predicted) pairs.push(["predicted", data.predicted.labels[data.predicted.codes[i]]]);
    else if (data.wrong) pairs.push(["1-NN", data.wrong[i] ? "wrong" : "right"]);
    if (hover.text) pairs.push([hover.text.name, hover.text.values[i]]);
    this.features.forEach((feature, k) => {
      if (this.chosen.has(k)) pairs.push([feature.name, String(feature.values[i])]);
    });
    return pairs;
  }

  say(i) {
    return this.describe(i).map((pair) => pair.join(" ")).join(", ");
  }

  thumbnail(i, size) {
    if (!this.sprite) return null;
    const { rows, columns, across } = this.hover.images;
    const scale = Math.max(1, Math.floor(size / Math.max(rows, columns)));
    const canvas = mpda.make("canvas", { width: columns * scale, height: rows * scale, class: "thumbnail" });
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    const corner = [(i % across) * columns, Math.floor(i / across) * rows];
    const paint = () => context.drawImage(this.sprite, ...corner, columns, rows, 0, 0, canvas.width, canvas.height);
    if (this.sprite.complete) paint(); else this.sprite.addEventListener("load", paint, { once: true });
    return canvas;
  }

  tip(i) {
    const lines = this.describe(i).map(([name, text]) =>
      mpda.make("div", {}, mpda.make("span", { class: "note" }, name + " "), mpda.make("b", {}, text)));
    const picture = this.thumbnail(i, 96);
    const wrong = this.data.wrong && this.data.wrong[i];
    return [...lines, wrong ? mpda.make("div", { class: "note" }, "1-NN gets it wrong") : null, picture].filter((node) => node !== null);
  }

  // A table of at most 200 rows; more would make the page slow.
  table(indices) {
    const limit = 200;
    const header = this.describe(indices[0]).map(([name]) => name);
    if (this.sprite) header.push("image");
    const body = indices.slice(0, limit).map((i) => {
      const cells = this.describe(i).map(([, text], k) =>
        mpda.make(k ? "td" : "th", k ? { "data-label": header[k] } : { scope: "row" }, text));
      if (this.sprite) cells.push(mpda.make("td", { "data-label": "image" }, this.thumbnail(i, 32)));
      return mpda.make("tr", this.data.wrong && this.data.wrong[i] ? { class: "wrong" } : {}, cells);
    });
    const columns = header.map((name) => mpda.make("th", { scope: "col" }, name));
    return mpda.make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Selected rows" },
      mpda.make("table", { class: header.length > 4 ? "cards" : "" },
        mpda.make("caption", { class: "hidden" }, "Selected rows"),
        mpda.make("thead", {}, mpda.make("tr", {}, columns)), mpda.make("tbody", {}, body)),
      indices.length > limit ? mpda.make("p", { class: "note" }, "The first " + limit + " rows are listed; Copy copies all.") : null);
  }

  // Tab-separated text, as spreadsheets take it.
  text(indices) {
    const lines = indices.map((i) => this.describe(i).map(([, text]) => text.replace(/\s+/g, " ")).join("\t"));
    return [this.describe(indices[0]).map(([name]) => name).join("\t"), ...lines].join("\n");
  }

  chooser(redraw) {
    if (!this.features.length) return null;
    const boxes = this.features.map((feature, k) => {
      const box = mpda.make("input", { type: "checkbox", onchange: () => {
        if (box.checked) this.chosen.add(k); else this.chosen.delete(k);
        redraw();
      } });
      box.checked = this.chosen.has(k);
      return mpda.make("label", {}, box, " " + feature.name);
    });
    return mpda.make("details", { class: "chooser" }, mpda.make("summary", {}, "Features on hover"), mpda.make("div", {}, boxes));
  }
};
