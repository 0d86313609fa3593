// The theme, messages about failed requests, and forms that take long.
"use strict";

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.getElementById("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("vmemo-theme", theme);
  document.dispatchEvent(new CustomEvent("vmemo:theme"));
});

// On phones the pages of a bank are one line, which scrolls.
const tab = document.querySelector(".side [aria-current]");
if (tab) tab.closest("nav").scrollLeft = tab.offsetLeft - (innerWidth - tab.offsetWidth) / 2;

function toast(text) {
  const line = document.createElement("p");
  line.className = "toast";
  line.textContent = text;
  document.getElementById("toasts").replaceChildren(line);
  setTimeout(() => line.remove(), 8000);
}

document.addEventListener("htmx:responseError", (event) => {
  const page = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
  const text = page.body.textContent.trim().slice(0, 400) || `The server answered ${event.detail.xhr.status}.`;
  const waiting = event.detail.target.querySelector(".loading");
  if (waiting) waiting.textContent = text;
  else toast(text);
});
document.addEventListener("htmx:sendError", () => toast("The server does not answer. Nothing was changed."));

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.hasAttribute("hx-post") || form.method !== "post") return;
  const button = form.querySelector("button:not([type=button])");
  if (!button) return;
  // After the browser has collected the fields.
  setTimeout(() => {
    button.disabled = true;
    if (form.dataset.busy) {
      button.textContent = form.dataset.busy;
      button.setAttribute("aria-busy", "true");
    }
  });
});

// A page from the browser's cache shows its buttons as they were left.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

for (const slider of document.querySelectorAll("input[type=range][data-output]")) {
  const output = document.getElementById(slider.dataset.output);
  slider.addEventListener("input", () => { output.value = slider.value; });
}
