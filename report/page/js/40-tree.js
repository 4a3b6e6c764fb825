// The tree: folding, the objects of large reports, and where the reader is.
const twist = (li, list, open, fillList) => {
  const b = button("", "twist", () => {
    const now = b.getAttribute("aria-expanded") !== "true";
    b.setAttribute("aria-expanded", String(now));
    if (now && fillList) { fillList(); fillList = null; }
    if (now) li.append(list); else list.remove();
  });
  b.setAttribute("aria-expanded", String(open));
  b.setAttribute("aria-label", "Show what is in " + li.querySelector(".name").textContent);
  if (!open) list.remove(); // a closed list is no part of the document, which keeps that small
  li.classList.add("has");
  li.prepend(b);
};
const leaves = (g, list) => {
  const most = 500;
  for (const e of g.entries.slice(0, most)) {
    const li = el("li"), a = el("a", "leaf"), dot = el("span", "dot r-" + e.risk);
    const title = /<span class="title">([\s\S]*?)<\/span>/.exec(e.markup || "");
    a.href = "#" + e.id;
    dot.title = "risk: " + e.risk;
    anchors.set(e.id, a);
    a.append(dot, el("span", "name", title ? plainText(title[1]).trim() : e.element.querySelector(".title").textContent));
    li.append(a);
    list.append(li);
  }
  if (g.entries.length > most) list.append(el("li", "faint", "and " + plural(g.entries.length - most, "more object")));
};
const tree = () => {
  const apps = [...document.querySelectorAll("#tree > li")];
  const few = apps.length <= 12;
  for (const li of apps) {
    const list = li.querySelector(":scope > ul");
    if (!list) continue;
    const inner = [...list.children], open = few && inner.length <= 30 || apps.length <= 40 && inner.length <= 3;
    const prepareGroups = () => { for (const one of inner) groupTwist(one, few && inner.length <= 4); };
    twist(li, list, open, prepareGroups);
    if (open) prepareGroups();
  }
};
const groupTwist = (li, open) => {
  const g = groupOf.get(li.dataset.group);
  if (!g || li.classList.contains("has") || li.querySelector(".n").textContent === "0") return;
  const have = li.querySelector(":scope > ul");
  if (have) { twist(li, have, open && have.children.length <= 12); return; }
  const list = el("ul");
  twist(li, list, false, () => leaves(g, list));
};
// prune hides the leaves of groups that do not match; null shows all. Only leaves that change are touched.
const pruned = new Set();
const leafOf = new Map(), anchors = new Map(); // by the id of the app, group or object
for (const a of document.querySelectorAll("#tree a")) anchors.set(a.getAttribute("href").slice(1), a);
for (const li of document.querySelectorAll("#tree li[data-app], #tree li[data-group]")) leafOf.set(li.dataset.group || li.dataset.app, li);
const prune = (found) => {
  const keep = new Set();
  if (found) for (const g of found) { keep.add(g.id); keep.add(g.app.id); }
  for (const id of pruned) if (!found || keep.has(id)) { leafOf.get(id).hidden = false; pruned.delete(id); }
  if (!found) return;
  for (const [id, li] of leafOf) if (!keep.has(id) && !pruned.has(id)) { li.hidden = true; pruned.add(id); }
};
let marked = null;
const mark = (id) => {
  if (marked) marked.removeAttribute("aria-current");
  marked = anchors.get(id) || null;
  if (!marked) return;
  marked.setAttribute("aria-current", "true");
  if (marked.offsetParent) marked.scrollIntoView({block: "nearest"});
};
