// Looks at every page of the site in a frame as wide as a phone; see site.py.
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

const scrolls = (element) => {
  for (let at = element.parentElement; at; at = at.parentElement) {
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(at).overflowX)) return true;
  }
  return false;
};

// Words of a cell that stand in more lines than their length explains: hyphens may break them.
const broken = function* (cell) {
  const texts = cell.ownerDocument.createNodeIterator(cell, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode()); ) {
    for (const word of text.data.matchAll(/[A-Za-z_]{6,}/g)) {
      const range = cell.ownerDocument.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
      if (lines > 1 + Math.floor(word[0].length / 16)) yield `${word[0]} in ${lines} lines`;
    }
  }
};

const faults = function* (document, width, address) {
  const say = (what) => `${address}: ${what}`;
  const whole = document.documentElement.scrollWidth;
  if (whole > width) yield say(`expected a page of ${width} pixels; got ${whole}`);
  for (const element of document.querySelectorAll(".md-content *")) {
    const right = element.getBoundingClientRect().right;
    if (right > width + 1 && !element.closest("svg") && !scrolls(element)) {
      yield say(`expected nothing beyond ${width} pixels; got ${right} of ${element.outerHTML}`.slice(0, 200));
      break;
    }
  }
  for (const cell of document.querySelectorAll(".md-content :is(td, th, dd)")) {
    for (const what of broken(cell)) yield say(`expected a word in one line; got ${what}`);
  }
  for (const code of document.querySelectorAll(".language-console code")) {
    code.setAttribute("data-md-copying", "");
    const copied = code.innerText;
    code.removeAttribute("data-md-copying");
    if (/^\$ |(^|\s)# /m.test(copied)) yield say(`expected commands to copy; got ${copied}`);
  }
};

const search = async function (frame, queries) {
  const found = [];
  for (const [query, address] of Object.entries(queries)) {
    const document = frame.contentDocument;
    const input = document.querySelector(".md-search__input");
    input.focus();
    input.value = query;
    input.dispatchEvent(new frame.contentWindow.KeyboardEvent("keyup", { bubbles: true }));
    let first = "";
    for (let tries = 0; tries < 40; tries++) {
      await wait(100);
      const link = document.querySelector(".md-search-result__item a");
      first = link ? new URL(link.href).pathname.slice(1) : "";
      if (first === address) break;
    }
    if (first !== address) found.push(`search: expected ${address} first for "${query}"; got ${first}`);
  }
  return found;
};

// Whether the page is in the frame; a request that a busy machine refused is made again.
const open = async function (frame, address) {
  for (let tries = 0; tries < 3; tries++) {
    await new Promise((done) => {
      frame.onload = done;
      frame.src = `/${address}`;
    });
    // Without a document where the browser shows an error of its own.
    if (frame.contentDocument?.location.pathname === `/${address}`) return true;
    await wait(500);
  }
  return false;
};

const look = async function (found) {
  const { pages, width, queries } = await (await fetch("/asked")).json();
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; height: 800px; border: 0`;
  document.body.append(frame);
  for (const address of pages) {
    if (!(await open(frame, address))) {
      found.push(`${address}: expected the page; got none`);
      continue;
    }
    await wait(50); // until scripts have put tables into what scrolls
    for (const scheme of ["default", "slate"]) {
      frame.contentDocument.body.setAttribute("data-md-color-scheme", scheme);
      found.push(...faults(frame.contentDocument, width, address));
    }
  }
  found.push(...(await search(frame, queries)));
};

addEventListener("load", async () => {
  const found = [];
  try {
    await look(found);
  } catch (error) {
    found.push(`the probe failed: ${error.stack}`);
  }
  await fetch("/found", { method: "POST", body: JSON.stringify([...new Set(found)]) });
});
