// Runs before the page is painted, so that the chosen theme does not flash.
"use strict";
(() => {
  const stored = localStorage.getItem("vmemo-theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
})();
