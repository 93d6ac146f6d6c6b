"use strict";
// Theme, choices, printing; starts the charts.
(function () {
  const toggle = document.getElementById("theme");

  // Theme: the choice of the reader, otherwise that of the system.

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = (function () {
    try { return window.localStorage.getItem("mpda-theme"); } catch { return null; } // may be forbidden for local files
  })();
  let override = stored === "light" || stored === "dark" ? stored : null;

  function setTheme(theme) {
    toggle.setAttribute("aria-pressed", String(theme === "dark"));
    mpda.applyTheme(theme);
  }

  const currentTheme = () => override || (system.matches ? "dark" : "light");
  toggle.addEventListener("click", () => {
    override = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { window.localStorage.setItem("mpda-theme", override); } catch { /* not stored, valid for this visit */ }
    setTheme(override);
  });
  system.addEventListener("change", () => setTheme(currentTheme()));
  setTheme(currentTheme());

  // Charts. Hidden ones are started when they are shown, because they need their width.

  const starters = { scatter: mpda.startScatter, curves: mpda.startCurves, patches: mpda.startPatches };
  function start(element) {
    if (element.dataset.started || element.hidden) return;
    element.dataset.started = "true";
    starters[element.dataset.chart](element);
  }
  document.querySelectorAll(".chart").forEach(start);

  const problem = document.getElementById("curve-choice");
  if (problem) problem.addEventListener("change", () => {
    Array.from(problem.options).forEach((option) => {
      const on = option.value === problem.value;
      document.getElementById(option.value).hidden = !on;
      document.querySelector('[data-with="' + option.value + '"]').hidden = !on;
    });
    start(document.getElementById(problem.value));
  });

  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () =>
    mpda.copyText(button.previousElementSibling.textContent, button)));

  // Paper is white, and has more dots than a screen.

  const scatter = document.getElementById("scatter");
  window.addEventListener("beforeprint", () => {
    mpda.hideTip();
    setTheme("light");
    if (scatter) scatter.view.draw(3);
  });
  window.addEventListener("afterprint", () => setTheme(currentTheme()));
})();
