// Search and filters. They live in the address, so that a link shows what its sender sees.
const state = {q: "", risk: [], env: "", kind: "", cluster: ""};
const active = () => state.risk.length + (state.env ? 1 : 0) + (state.kind ? 1 : 0) + (state.cluster ? 1 : 0);

let saving = 0;
// save waits for the frame of a key: a new address costs the browser time for each element of the page.
const save = () => {
  clearTimeout(saving);
  saving = setTimeout(saveNow, 60);
};
const saveNow = () => {
  const p = new URLSearchParams();
  for (const k of ["q", "env", "kind", "cluster"]) if (state[k]) p.set(k, state[k]);
  if (state.risk.length) p.set("risk", state.risk.join(","));
  if (splitView) p.set("view", "split");
  const query = p.toString();
  try { history.replaceState(null, "", location.pathname + (query ? "?" + query : "") + location.hash); } catch { /* a sandboxed page has no address of its own */ }
};
const load = () => {
  const p = new URLSearchParams(location.search);
  for (const k of ["q", "env", "kind", "cluster"]) state[k] = p.get(k) || "";
  state.risk = (p.get("risk") || "").split(",").filter(Boolean);
  splitView = p.has("view") ? p.get("view") === "split" : stored.get("view") === "split";
};
const fill = () => {
  $("search").value = state.q; $("env").value = state.env; $("kind").value = state.kind; $("cluster").value = state.cluster;
  for (const c of document.querySelectorAll("input[name=risk]")) c.checked = state.risk.includes(c.value);
  $("unified").setAttribute("aria-pressed", String(!splitView));
  $("split").setAttribute("aria-pressed", String(splitView));
};

const matches = (g, entry, wanted) => (!state.risk.length || state.risk.includes(entry.risk)) && (!state.kind || entry.kind === state.kind) && wanted.every((w) => g.label.includes(w) || entry.text.includes(w));

// The document has a window of the groups, because the browser works longer on a key in a larger document. The window grows when the reader
// comes near its end, and moves when a key or a link leads far away from it. Groups outside of it are no part of the document.
const WINDOW = 24, AROUND = 8; // groups; AROUND on each side of the one that a key or a link leads to
let hits = groups, from = 0, to = 0;
const placed = new Set();
const apps = new Map(); // each with the number of its groups in the document
for (const g of groups) {
  apps.set(g.app, 0);
  g.section.remove(); // place returns those of the window
}
const earlier = button("", "more", () => { from = Math.max(0, from - WINDOW); place(); });
const later = button("", "more", () => { to = Math.min(hits.length, to + WINDOW); place(); });
const place = () => {
  const list = hits.slice(from, to), wanted = new Set(list);
  for (const g of placed) {
    if (wanted.has(g)) continue;
    g.section.remove();
    placed.delete(g);
    apps.set(g.app, apps.get(g.app) - 1);
  }
  let last = null; // its section is in the document, and before that of g
  for (const g of list) {
    if (!placed.has(g)) {
      (last?.app === g.app ? last.section : g.app.querySelector("h2")).after(g.section);
      placed.add(g);
      apps.set(g.app, apps.get(g.app) + 1);
      arrive.observe(g.section);
    }
    last = g;
  }
  for (const [app, n] of apps) if (app.hidden !== (n === 0)) app.hidden = n === 0;
  earlier.textContent = "Show earlier groups of " + hits.length.toLocaleString("en-US");
  later.textContent = "Show more groups of " + hits.length.toLocaleString("en-US");
  earlier.hidden = from === 0;
  later.hidden = to >= hits.length;
  watch.unobserve(later); // it may still be near the screen
  watch.observe(later);
};
// uncover moves the window so that it has a group.
const uncover = (g) => {
  const at = hits.indexOf(g);
  if (at < 0 || at >= from && at < to) return;
  if (at === to) to = Math.min(hits.length, to + AROUND);
  else if (at === from - 1) from = Math.max(0, from - AROUND);
  else { from = Math.max(0, at - AROUND); to = Math.min(hits.length, at + AROUND); }
  place();
};

let current = null; // the object where the reader is
let filtered = false; // the last apply left something out
let turn = 0;
const pause = () => new Promise((r) => setTimeout(r));
// apply finds what matches in slices of time, then changes the page at once.
const apply = async () => {
  const mine = ++turn, wanted = state.q.toLowerCase().split(/\s+/).filter(Boolean), cluster = state.cluster.toLowerCase();
  const any = wanted.length > 0 || active() > 0, byObject = wanted.length > 0 || state.risk.length > 0 || state.kind !== "";
  let objects = 0, began = performance.now();
  const found = [], lists = new Map();
  for (const g of groups) {
    if (!any) { found.push(g); continue; }
    if (performance.now() - began > 10) {
      await pause();
      if (mine !== turn) return;
      began = performance.now();
    }
    if (state.env && !g.environments.includes(state.env) || cluster && !g.clusters.includes(cluster)) continue;
    g.label ||= (g.app.querySelector("h2").firstChild.textContent + " " + g.section.querySelector(".where").textContent + " " + (g.section.querySelector(".apps")?.textContent ?? "")).toLowerCase();
    const list = byObject ? g.entries.filter((e) => matches(g, e, wanted)) : g.entries;
    const named = !list.length && !state.kind && !state.risk.length && wanted.every((w) => g.label.includes(w));
    if (!list.length && !named) continue;
    lists.set(g, list);
    objects += list.length;
    found.push(g);
  }
  for (const g of groups) {
    if (!g.list) continue;
    const list = any ? lists.get(g) || [] : g.list;
    if (list === g.shown || list.length === g.shown.length && list.every((e, i) => e === g.shown[i])) continue;
    g.shown = list;
    if (g.drawn) g.forget();
  }
  hits = found;
  if (any || filtered || !to) {
    const at = !any && current ? hits.indexOf(current.group) : -1; // who clears the filters stays at the current object
    from = Math.max(0, at - AROUND);
    to = Math.min(hits.length, at < 0 ? WINDOW : at + AROUND);
    place();
    if (at >= 0) { current.group.reveal(current); current.element.scrollIntoView({block: "start"}); }
  }
  filtered = any;
  prune(any ? new Set(found) : null);
  $("nothing").hidden = hits.length > 0 || groups.length === 0;
  $("active").textContent = active() ? String(active()) : "";
  $("count").textContent = any ? plural(objects, "object") + " in " + plural(hits.length, "group") + " of " + groups.length.toLocaleString("en-US") : plural(groups.length, "group");
};
// warm prepares the search while the reader reads.
const warm = () => {
  let next = 0;
  const idle = window.requestIdleCallback || ((f) => setTimeout(() => f({timeRemaining: () => 5}), 50));
  const work = (deadline) => {
    while (next < groups.length && deadline.timeRemaining() > 2) for (const e of groups[next++].entries) e.text;
    if (next < groups.length) idle(work);
  };
  idle(work);
};
let timer = 0;
const changed = () => {
  state.q = $("search").value.trim(); state.env = $("env").value; state.kind = $("kind").value; state.cluster = $("cluster").value.trim();
  state.risk = [...document.querySelectorAll("input[name=risk]:checked")].map((c) => c.value);
  save();
  clearTimeout(timer);
  timer = setTimeout(apply, 60);
};
const reset = () => {
  Object.assign(state, {q: "", risk: [], env: "", kind: "", cluster: ""});
  fill(); save();
};
// clear shows the empty fields at once, and everything after that.
const clear = () => {
  reset();
  clearTimeout(timer);
  timer = setTimeout(apply, 60);
};
const setView = (on) => {
  splitView = on;
  stored.set("view", on ? "split" : "unified");
  fill(); save();
  for (const g of placed) { // what is near the screen follows at once, the rest when it comes near
    if (g.drawn) for (const e of g.shown.slice(g.first, g.end)) { watch.unobserve(e.element); watch.observe(e.element); }
  }
};
