// A field above the table of all environments: rows whose text has all of its words stay. On narrow
// screens the style sheet makes a card of each row, for which a cell knows the head of its column.
document$.subscribe(() => {
  const first = document.querySelector("h2[id=gymnax]");
  if (!first || !location.pathname.includes("libraries/table")) return;
  const field = document.createElement("input");
  field.type = "search";
  field.className = "filter";
  field.placeholder = "Filter: minatar clean, Discrete(3), ...";
  field.setAttribute("aria-label", "Filter the environments");
  first.before(field);
  const sections = [...document.querySelectorAll("h2[id]")].map((heading) => {
    let table = heading.nextElementSibling;
    while (table && !table.querySelector("tbody")) table = table.nextElementSibling;
    const heads = table ? [...table.querySelectorAll("th")].map((head) => head.textContent) : [];
    for (const row of table?.querySelectorAll("tbody tr") ?? []) {
      row.querySelectorAll("td").forEach((cell, column) => (cell.dataset.head = heads[column]));
    }
    if (table) table.querySelector("tbody").parentElement.dataset.cards = "";
    return { heading, table };
  });
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { heading, table } of sections) {
      if (!table) continue;
      let shown = 0;
      for (const row of table.querySelectorAll("tbody tr")) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      heading.hidden = table.hidden = !shown;
    }
  });
});
