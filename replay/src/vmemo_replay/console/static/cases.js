// Puts the text of a chosen file into the field that is sent.
"use strict";
for (const input of document.querySelectorAll("input[type=file][data-fills]")) {
  input.addEventListener("change", async () => {
    if (input.files[0]) document.getElementById(input.dataset.fills).value = await input.files[0].text();
  });
}
