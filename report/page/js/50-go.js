// Where the reader is, the keyboard, and the start.
const select = (entry, focus) => {
  if (current) current.element.classList.remove("current");
  current = entry;
  const e = entry.element;
  e.classList.add("current");
  rows(e);
  e.scrollIntoView({block: "start"});
  if (focus) e.querySelector(".fold").focus({preventScroll: true});
  mark(entry.id);
};
// show finds an element by its id, also in a group that is not drawn yet or that a filter hides.
const show = (id) => {
  const at = /^o(\d+)-\d+$/.exec(id);
  const g = at ? groupOf.get("g" + at[1]) : groupOf.get(id);
  if (!g) { const e = id && $(id); if (e) { e.scrollIntoView(); mark(id); } return; }
  if (!hits.includes(g) || at && !g.shown?.some((e) => e.id === id) && (state.q || active())) { reset(); apply(); }
  uncover(g);
  const entry = at && g.entries.find((e) => e.id === id);
  if (entry) { g.reveal(entry); fold(entry.element, true); select(entry); return; }
  if (g.first > 0 || !g.drawn) g.draw();
  g.section.scrollIntoView({block: "start"});
  mark(id);
};
const listed = () => hits;
const step = (by) => {
  const open = listed();
  if (!open.length) return;
  if (!current || !open.includes(current.group)) { const g = open[from] || open[0]; g.entries; if (g.shown.length) { g.reveal(g.shown[0]); select(g.shown[0], true); } return; }
  let g = current.group, i = g.shown.indexOf(current) + by, n = open.indexOf(g);
  while (g && (i < 0 || i >= g.shown.length)) {
    n += by;
    g = open[n];
    if (!g) return;
    g.entries;
    i = by > 0 ? 0 : g.shown.length - 1;
  }
  uncover(g);
  g.reveal(g.shown[i]);
  select(g.shown[i], true);
};
const stepGroup = (by) => {
  const open = listed(), n = current ? open.indexOf(current.group) + by : 0, g = open[Math.max(0, Math.min(open.length - 1, n))];
  if (!g) return;
  uncover(g);
  g.entries;
  if (!g.shown.length) return;
  g.reveal(g.shown[0]);
  select(g.shown[0], true);
};
let caution = -1;
const stepCaution = (by) => {
  const all = [...document.querySelectorAll(".cautions a[href]")];
  if (!all.length) return;
  caution = (caution + by + all.length) % all.length;
  show(all[caution].getAttribute("href").slice(1));
};
const onCurrent = (act) => () => { if (current) act(current.element); };
const keys = {
  j: () => step(1), k: () => step(-1), n: () => stepGroup(1), p: () => stepGroup(-1), "]": () => stepCaution(1), "[": () => stepCaution(-1),
  o: onCurrent((e) => fold(e)), s: () => setView(!splitView), d: nextTheme,
  e: onCurrent((e) => { for (const h of e.querySelectorAll(".hunk")) { expand(h, "above"); expand(h, "below"); } }),
  c: onCurrent((e) => { const at = e.querySelector(".at"); if (at) copy(at.textContent, "Path"); }),
  x: onCurrent((e) => copy(e.dataset.explain, "Command")),
  "/": () => $("search").focus(), f: () => { $("filters").open = true; $("filters").querySelector("input, select").focus(); },
  t: () => { const a = document.querySelector("#tree a"); if (a) a.focus(); }, "?": () => $("keys").showModal(),
};
document.addEventListener("keydown", (e) => {
  if ($("keys").open || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "Escape") { clear(); document.activeElement.blur(); return; }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) && document.activeElement.type !== "checkbox") return;
  if (Object.hasOwn(keys, e.key)) { e.preventDefault(); keys[e.key](); }
});
document.addEventListener("click", (e) => {
  const a = e.target.closest('a[href^="#"]');
  if (!a) return;
  const id = a.getAttribute("href").slice(1);
  if (id === "changes") return;
  e.preventDefault();
  try { history.pushState(null, "", "#" + id); } catch { /* a sandboxed page has no address of its own */ }
  show(id);
  if (a.closest(".side") && matchMedia("(max-width: 1000px)").matches) document.querySelector(".browse").open = false;
});
addEventListener("popstate", () => { if (location.hash) show(decodeURIComponent(location.hash.slice(1))); });
addEventListener("hashchange", () => show(decodeURIComponent(location.hash.slice(1))));
addEventListener("beforeprint", () => {
  const most = 3000; // objects: more than that is not for paper
  let n = 0;
  from = 0;
  to = Math.min(hits.length, most);
  place();
  for (const g of hits.slice(from, to)) {
    if (n > most) return;
    g.draw(0, g.entries.length);
    for (const e of g.shown) rows(e.element);
    n += g.shown.length;
  }
});
for (const id of ["search", "env", "kind", "cluster"]) $(id).addEventListener("input", changed);
for (const c of document.querySelectorAll("input[name=risk]")) c.addEventListener("change", changed);
$("clear").addEventListener("click", clear);
$("unified").addEventListener("click", () => setView(false));
$("split").addEventListener("click", () => setView(true));

for (const e of document.querySelectorAll(".js")) e.hidden = false;
if (matchMedia("(max-width: 1000px)").matches && document.querySelector(".browse")) document.querySelector(".browse").open = false;
load();
fill();
tree();
$("list").before(earlier);
$("list").after(later);
apply();
if (location.hash) show(decodeURIComponent(location.hash.slice(1)));
if (document.readyState === "complete") warm(); else addEventListener("load", warm);
