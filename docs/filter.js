// The form above the table of all environments: rows that have all words, and what was chosen, stay.
document$.subscribe(() => {
  const form = document.querySelector("form.filters");
  if (!form) return;
  const rows = [...document.querySelectorAll("table.ids tbody tr")];
  const fits = (row, name, chosen) => {
    const known = row.dataset[name] ?? "";
    if (name === "speed") return Number(known) >= Number(chosen);
    if (name === "port") return known.split("|").includes(chosen);
    return known === chosen;
  };
  const filter = () => {
    const chosen = [...form.querySelectorAll("select")].filter((select) => select.value);
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden =
        !words.every((word) => text.includes(word)) ||
        !chosen.every((select) => fits(row, select.name, select.value));
      shown += !row.hidden;
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
});
