const all = [...document.querySelectorAll("details.q")];
const part = (id) => document.getElementById(id);
const texts = new Map();
const text = (q) => {
  if (!texts.has(q)) texts.set(q, q.textContent.toLowerCase());
  return texts.get(q);
};
function filter() {
  const category = part("category").value, show = part("show").value;
  const words = part("words").value.trim().toLowerCase();
  let shown = 0;
  for (const q of all) {
    const fits = (!category || q.dataset.category === category) && (!show || q.dataset[show] === "1");
    q.hidden = !(fits && (!words || text(q).includes(words)));
    shown += q.hidden ? 0 : 1;
  }
  part("shown").textContent = `${shown} of ${all.length}`;
}
let later;
part("category").addEventListener("change", filter);
part("show").addEventListener("change", filter);
part("words").addEventListener("input", () => { clearTimeout(later); later = setTimeout(filter, 100); });
filter();
