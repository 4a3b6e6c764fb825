// Everything can be read without this script. It adds colours by choice, the keyboard, copying, filters and local times. It parses
// no value as markup; a live page takes the server's own page in its place.
const copy = async (button) => {
  const text = button.parentElement.querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    say("Command copied");
    button.textContent = "Copied";
  } catch { // a page that was opened as a file may not use the clipboard
    const range = document.createRange();
    range.selectNodeContents(button.parentElement.querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    say("Command selected");
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
};

// filter hides the rows of a table that lack one of the words, or the chosen label, and keeps both in the address.
const filter = (input) => {
  const rows = [...$(input.dataset.filter).tBodies[0].rows], texts = [], label = input.parentElement.querySelector("select");
  const chosen = () => label ? label.value : "";
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean), line = chosen() + "\n";
    let n = 0;
    rows.forEach((row, i) => {
      const labels = row.dataset.labels || "";
      texts[i] ??= (row.textContent + " " + labels).toLowerCase();
      row.hidden = !words.every((w) => texts[i].includes(w)) || chosen() !== "" && !("\n" + labels).includes("\n" + line);
      if (!row.hidden) n++;
    });
    $("count").textContent = words.length || chosen() ? n.toLocaleString("en-US") + " of " + rows.length.toLocaleString("en-US") : "";
    const q = new URLSearchParams();
    if (input.value) q.set("q", input.value);
    if (chosen()) q.set("label", chosen());
    try { history.replaceState(null, "", (q.size ? "?" + q : location.pathname) + location.hash); } catch { /* a sandboxed page has no address of its own */ }
  };
  let timer = 0;
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(apply, 60); });
  input.clear = () => { input.value = ""; if (label) label.value = ""; apply(); };
  const q = new URLSearchParams(location.search);
  if (q.get("q")) input.value = q.get("q");
  if (label) {
    label.addEventListener("change", apply);
    if ([...label.options].some((o) => o.value === q.get("label"))) label.value = q.get("label");
  }
  if (input.value || chosen()) apply();
};
// A mark of a timeline leads to its entry in the list, which is the way of those who do not use a pointer.
document.addEventListener("click", (e) => { const mark = e.target.closest("[data-to]"); if (mark) location.hash = mark.dataset.to; });
// A list of pages leads to the chosen one.
document.addEventListener("change", (e) => {
  const list = e.target.closest("select[data-go]");
  if (list) location.href = list.dataset.go + list.value;
});

// times shows the reader's own zone, and how long ago.
const units = [["day", 86400], ["hour", 3600], ["minute", 60]];
const times = () => {
  for (const t of document.querySelectorAll("time")) {
    const at = new Date(t.dateTime), local = at.toLocaleString(undefined, {dateStyle: "medium", timeStyle: "short"});
    if ("ago" in t.dataset) {
      const seconds = (Date.now() - at) / 1000;
      const [unit, size] = units.find(([u, s]) => seconds >= s * (u === "day" ? 2 : 1)) || ["", 0], n = size ? Math.floor(seconds / size) : 0;
      t.textContent = size ? n.toLocaleString("en-US") + " " + unit + (n === 1 ? "" : "s") + " ago" : "just now";
      t.title = local;
    } else { t.textContent = local; t.title = t.dateTime; }
  }
};

let at = null;
const entries = () => [...document.querySelectorAll("main tbody tr:not([hidden]), .stage, .node")].filter((e) => e.offsetParent && e.querySelector("a"));
const step = (by) => {
  const list = entries(), i = list.indexOf(at) + (at ? by : by > 0 ? 1 : 0);
  if (!list.length) return;
  if (at) at.classList.remove("at");
  at = list[Math.max(0, Math.min(list.length - 1, i))];
  at.classList.add("at");
  at.querySelector("a").focus({preventScroll: true});
  at.scrollIntoView({block: "nearest"});
};
let leader = false;
const keys = {
  j: () => step(1), k: () => step(-1), d: nextTheme, "?": () => $("keys").showModal(),
  "/": () => { const f = $("filter") || $("q"); if (f) f.focus(); else location.href = document.body.dataset.root + "search.html"; },
  g: () => { leader = true; setTimeout(() => { leader = false; }, 1200); },
};
document.addEventListener("keydown", (e) => {
  if ($("keys").open || e.ctrlKey || e.metaKey || e.altKey) return;
  const field = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (e.key === "Escape" && $("filter")) { $("filter").clear(); document.activeElement.blur(); return; }
  if (field) return;
  if (leader) {
    leader = false;
    const a = document.querySelector('.nav a[data-key="' + CSS.escape(e.key) + '"]');
    if (a) { e.preventDefault(); a.click(); }
    return;
  }
  if (Object.hasOwn(keys, e.key)) { e.preventDefault(); keys[e.key](); }
});
document.addEventListener("click", (e) => { const b = e.target.closest(".copy"); if (b) copy(b); });
// Two states of an environment are compared from the older to the newer one, whatever the order in the form. Newer states are listed first.
document.addEventListener("submit", (e) => {
  const form = e.target.closest("form[data-changes]");
  if (!form) return;
  e.preventDefault();
  const [older, newer] = [form.elements.from, form.elements.to].sort((a, b) => b.selectedIndex - a.selectedIndex);
  const same = older.selectedIndex === newer.selectedIndex;
  form.querySelector("output").textContent = same ? "Choose two different states." : "";
  if (!same) location.href = form.dataset.changes + older.value + ".." + newer.value + ".html";
});
// A fold that a link points into opens.
const reveal = () => {
  const e = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let d = e; d; d = d.parentElement) if (d.tagName === "DETAILS") d.open = true;
};
addEventListener("hashchange", reveal);

// enhance prepares the content, at the start and after an update.
const enhance = () => {
  for (const e of document.querySelectorAll(".js")) e.hidden = false;
  for (const e of document.querySelectorAll("select[data-go]")) e.value = e.querySelector("[selected]")?.value ?? "index.html"; // not what the browser remembers
  if ($("filter")) filter($("filter"));
  times();
  reveal();
};
// update takes the content of the page as the server has it now. What is open stays open.
const update = async () => {
  const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
  if (!answer.ok) return;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html"), main = next.querySelector("main"), place = (d) => d.closest("[id]")?.id + " " + d.querySelector("summary").textContent;
  if (!main || $("keys").open) return;
  const open = new Set([...document.querySelectorAll("main details")].filter((d) => d.open).map(place));
  at = null;
  document.querySelector("main").replaceWith(main);
  document.querySelector("footer").replaceWith(next.querySelector("footer"));
  for (const d of document.querySelectorAll("main details")) if (open.has(place(d))) d.open = true;
  enhance();
  live("Updated");
};
const live = (text) => { if ($("live")) $("live").textContent = text + " · "; };
const follow = (address) => {
  const events = new EventSource(address);
  events.addEventListener("open", () => live("Live"));
  events.addEventListener("error", () => {
    live("Not connected");
    // The browser gives up when the server refuses, for example because the session ended: a new page goes through the sign-in.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 60000);
  });
  events.addEventListener("changed", () => { update().catch(() => live("Not connected")); });
};

enhance();
if (document.body.dataset.live && window.EventSource) follow(document.body.dataset.live);
