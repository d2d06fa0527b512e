// The form above the table of all environments: rows that have all words, and what was chosen, stay.
// The choice stands in the address.
document$.subscribe(() => {
  const form = document.querySelector("form.filters");
  if (!form) return;
  const rows = [...document.querySelectorAll("table.ids tbody tr")];
  const wordsOf = new Map(rows.map((row) => [row, row.dataset.words.split(" ")]));
  const known = new Set([...wordsOf.values()].flat());
  const fits = (row, name, chosen) => {
    if (name === "speed") return Number(row.dataset.speed ?? 0) >= Number(chosen);
    return (row.dataset[name] ?? "").split("|").includes(chosen);
  };
  const has = (row, word) =>
    known.has(word) ? wordsOf.get(row).includes(word) : row.textContent.toLowerCase().includes(word);
  const filter = () => {
    const selects = [...form.querySelectorAll("select")].filter((select) => select.value);
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = [
      ...selects.map(({ name, value }) => [`${name}: ${value}`, (row) => fits(row, name, value)]),
      ...words.map((word) => [word, (row) => has(row, word)]),
    ];
    const left = (some) => rows.filter((row) => some.every(([, test]) => test(row)));
    const shown = new Set(left(tests));
    for (const row of rows) row.hidden = !shown.has(row);
    const without = tests
      .map((test) => [test[0], left(tests.filter((other) => other !== test)).length])
      .filter(([, count]) => count)
      .map(([what, count]) => `, ${count} without "${what}"`);
    const hint = shown.size ? "" : without.join("");
    form.querySelector("output").textContent = `${shown.size} of ${rows.length}${hint}`;
    const query = `${new URLSearchParams([...new FormData(form)].filter(([, value]) => value))}`;
    history.replaceState(history.state, "", (query ? `?${query}` : location.pathname) + location.hash);
  };
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (form.elements[name]) form.elements[name].value = value;
  }
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
});
