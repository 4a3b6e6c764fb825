"use strict";
(() => {
  const review = JSON.parse(document.getElementById("data").textContent);
  const changes = review.changes || {groups: [], apps: [], withheld: []};
  const groups = changes.groups || [];
  const risks = ["critical", "high", "medium", "low", "none"];
  const $ = (id) => document.getElementById(id);
  const BATCH = 60;

  // el makes an element; text is always text.
  const el = (tag, attributes, ...children) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes || {})) {
      if (k === "class") e.className = v; else if (v !== false && v !== undefined) e.setAttribute(k, v === true ? "" : v);
    }
    for (const c of children) if (c !== null && c !== undefined) e.append(c);
    return e;
  };
  // Characters that steer the text's direction, or cannot be seen, are shown by their numbers.
  const shown = (s) => String(s).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) => "⟨U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
  const title = (id) => shown(id.kind + " " + (id.namespace ? id.namespace + "/" : "") + id.name);
  const where = (list) => (list || []).map((r) => r.pattern + (r.clusters > 1 ? " (" + r.clusters + ")" : "")).join(", ");
  const onlyNoise = (o) => o.verb === "changed" && !(o.fields || []).length;
  const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");

  // What is searched: names, fields, values, images and effects of a group, made once when it is first needed.
  const texts = new Array(groups.length);
  const textOf = (i) => {
    if (texts[i] === undefined) {
      const g = groups[i], parts = [g.app, g.summary, ...(g.varies || [])];
      for (const o of g.objects || []) {
        parts.push(title(o.id), o.apiVersion);
        for (const f of o.fields || []) parts.push(f.path);
        for (const h of o.hunks || []) parts.push(...h.lines);
        for (const e of o.effects || []) parts.push(e.effect, e.message);
      }
      texts[i] = parts.join("\n").toLowerCase();
    }
    return texts[i];
  };

  const state = {search: "", cluster: "", application: "", kind: "", risk: "", noise: false, split: false};
  const matches = (i) => {
    const g = groups[i];
    if (state.application && g.app !== state.application) return false;
    if (state.risk && g.risk !== state.risk) return false;
    if (state.cluster && !(g.clusters || []).some((c) => c.includes(state.cluster))) return false;
    if (state.kind && !(g.objects || []).some((o) => o.id.kind === state.kind)) return false;
    if (!state.noise && (g.objects || []).every(onlyNoise)) return false;
    return state.search.toLowerCase().split(/\s+/).every((w) => !w || textOf(i).includes(w));
  };

  const options = (id, values) => $(id).append(...values.map((v) => el("option", {value: v}, shown(v))));
  const unique = (list) => [...new Set(list)].sort();

  const lineClass = (l) => l[0] === "+" ? "add" : l[0] === "-" ? "del" : "";
  const unified = (o) => {
    const box = el("div", {class: "diff"});
    for (const h of o.hunks || []) {
      box.append(el("div", {class: "at"}, "@@ " + shown(h.path || "") + " @@"));
      for (const l of h.lines) box.append(el("div", {class: lineClass(l)}, shown(l)));
    }
    return box;
  };
  const sides = (o) => {
    const box = el("div", {class: "diff sides"}), left = el("div"), right = el("div");
    const flush = (dels, adds) => {
      for (let i = 0; i < Math.max(dels.length, adds.length); i++) {
        left.append(el("div", {class: i < dels.length ? "del" : ""}, i < dels.length ? shown(dels[i].slice(1)) : " "));
        right.append(el("div", {class: i < adds.length ? "add" : ""}, i < adds.length ? shown(adds[i].slice(1)) : " "));
      }
    };
    for (const h of o.hunks || []) {
      for (const side of [left, right]) side.append(el("div", {class: "at"}, "@@ " + shown(h.path || "") + " @@"));
      let dels = [], adds = [];
      for (const l of h.lines) {
        if (l[0] === "-") { dels.push(l); continue; }
        if (l[0] === "+") { adds.push(l); continue; }
        flush(dels, adds); dels = []; adds = [];
        left.append(el("div", {}, shown(l.slice(1)) || " "));
        right.append(el("div", {}, shown(l.slice(1)) || " "));
      }
      flush(dels, adds);
    }
    box.append(left, right);
    return box;
  };

  const object = (o) => {
    const e = el("div", {class: "object"}, el("h3", {}, el("span", {class: "verb-" + o.verb}, o.verb + " "), title(o.id), o.oldId && o.oldId.name ? " (was " + title(o.oldId) + ")" : ""));
    const effects = (o.effects || []).filter((x) => x.effect !== "image");
    if (effects.length) e.append(el("ul", {class: "effects"}, ...effects.map((x) => el("li", {class: "risk-" + x.risk}, shown(x.message)))));
    if ((o.hunks || []).length) e.append(state.split ? sides(o) : unified(o));
    if (state.noise && (o.noise || []).length) {
      e.append(el("ul", {class: "effects"}, ...o.noise.map((n) => el("li", {class: "where"}, shown(n.path) + ": " + shown(JSON.stringify(n.old)) + " → " + shown(JSON.stringify(n.new))))));
    } else if ((o.noise || []).length) e.append(el("p", {class: "where"}, plural(o.noise.length, "field") + " of noise folded" + (o.rolls ? "; the pods are replaced" : "")));
    return e;
  };

  const body = (g) => {
    const b = el("div", {class: "body"});
    if ((g.varies || []).length) b.append(el("p", {class: "where"}, "Differs from cluster to cluster by " + shown(g.varies.join(", ")) + "; shown as on " + shown(g.example) + "."));
    b.append(el("p", {class: "where"}, "Clusters: " + shown((g.clusters || []).join(", "))));
    const objects = (g.objects || []).filter((o) => state.noise || !onlyNoise(o));
    let next = 0;
    const more = el("button", {type: "button", class: "more"});
    const draw = () => {
      const until = Math.min(next + BATCH, objects.length);
      for (; next < until; next++) b.insertBefore(object(objects[next]), more);
      more.hidden = next >= objects.length;
      more.textContent = "Show " + Math.min(BATCH, objects.length - next) + " more of " + plural(objects.length, "object");
    };
    more.addEventListener("click", draw);
    b.append(more);
    draw();
    const folded = (g.objects || []).length - objects.length;
    if (folded) b.append(el("p", {class: "where"}, plural(folded, "object") + " of noise folded"));
    return b;
  };

  const group = (i, open) => {
    const g = groups[i];
    const link = el("a", {class: "permalink", href: "#" + encodeURIComponent(g.id), "aria-label": "Link to this change"}, "#");
    const d = el("details", {class: "group", id: "g-" + g.id}, el("summary", {},
      el("span", {class: "risk risk-" + g.risk}, g.risk), el("span", {class: "app"}, shown(g.app)), el("span", {class: "where"}, " on " + shown(where(g.where))), el("span", {class: "summary"}, shown(g.summary)), link));
    d.addEventListener("toggle", () => {
      if (d.open && d.children.length === 1) d.append(body(g));
      if (!d.open && d.children.length > 1) d.lastChild.remove();
    });
    if (open) { d.append(body(g)); d.open = true; }
    return d;
  };

  let found = [], drawn = 0, current = -1;
  const list = $("groups");
  const sentinel = el("button", {type: "button", class: "more"}, "Show more");
  const drawMore = () => {
    const until = Math.min(drawn + BATCH, found.length);
    for (; drawn < until; drawn++) list.insertBefore(group(found[drawn], found.length <= 5), sentinel);
    sentinel.hidden = drawn >= found.length;
    sentinel.textContent = "Show more (" + (found.length - drawn) + " left)";
  };
  sentinel.addEventListener("click", drawMore);
  if (typeof IntersectionObserver === "function") new IntersectionObserver((e) => { if (e.some((x) => x.isIntersecting)) drawMore(); }, {rootMargin: "600px"}).observe(sentinel);

  const draw = () => {
    found = groups.map((_, i) => i).filter(matches);
    drawn = 0; current = -1;
    list.replaceChildren(el("h2", {}, "Changes"), sentinel);
    drawMore();
    const total = groups.length, objects = found.reduce((n, i) => n + (groups[i].objects || []).length, 0);
    $("count").textContent = plural(found.length, "change") + " of " + total + ", " + plural(objects, "object");
  };

  const problems = () => {
    const out = (review.errors || []).map((e) => el("p", {class: "problem"}, shown(e)));
    for (const w of changes.withheld || []) out.push(el("p", {class: "problem"}, shown(w.app) + " on " + shown(w.environment + "/" + w.cluster) + " could not be rendered" + (w.before ? " at the base" : "") + ":\n" + shown(w.message)));
    $("problems").append(...out.slice(0, 200));
    if (out.length > 200) $("problems").append(el("p", {class: "problem"}, plural(out.length - 200, "more problem") + " in the JSON report"));
  };

  const apps = () => {
    if (!(changes.apps || []).length) return;
    const rows = changes.apps.map((a) => el("tr", {}, el("td", {}, shown(a.app)), el("td", {class: "number"}, a.clusters), el("td", {class: "number"}, a.groups),
      el("td", {class: "number"}, a.counts.added), el("td", {class: "number"}, a.counts.changed), el("td", {class: "number"}, a.counts.removed), el("td", {}, shown(a.summary))));
    $("apps").append(el("h2", {}, "Apps"), el("table", {}, el("thead", {}, el("tr", {}, ...["App", "Clusters", "Groups", "Added", "Changed", "Removed", "Summary"].map((h) => el("th", {scope: "col"}, h)))), el("tbody", {}, ...rows)));
  };

  const findings = () => {
    const f = review.findings || {}, all = f.introduced || [];
    if (!all.length && !(f.notes || []).length) return;
    $("findings").append(el("h2", {}, "Policy"));
    if (all.length) {
      const rows = all.slice(0, 1000).map((x) => el("tr", {}, el("td", {class: x.severity === "error" ? "risk-critical" : "risk-high"}, x.severity), el("td", {}, shown(x.rule)),
        el("td", {}, x.object && x.object.kind ? title(x.object) : ""), el("td", {}, shown(x.app || "") + " on " + shown((x.clusters || []).slice(0, 3).join(", ")) + ((x.clusters || []).length > 3 ? " and " + (x.clusters.length - 3) + " more" : "")),
        el("td", {}, shown(x.message) + (x.hint ? " → " + shown(x.hint) : ""))));
      $("findings").append(el("table", {}, el("thead", {}, el("tr", {}, ...["Severity", "Rule", "Object", "Where", "What"].map((h) => el("th", {scope: "col"}, h)))), el("tbody", {}, ...rows)));
      if (all.length > 1000) $("findings").append(el("p", {class: "where"}, plural(all.length - 1000, "more finding") + " in the JSON report"));
    }
    for (const n of f.notes || []) $("findings").append(el("p", {class: "where"}, shown(n)));
  };

  options("application", unique(groups.map((g) => g.app)));
  options("kind", unique(groups.flatMap((g) => (g.objects || []).map((o) => o.id.kind))));
  options("risk", risks.filter((r) => groups.some((g) => g.risk === r)));
  $("clusters").append(...unique(groups.flatMap((g) => g.clusters || [])).map((c) => el("option", {value: c})));

  let timer = 0;
  const changed = () => {
    for (const id of ["search", "cluster", "application", "kind", "risk"]) state[id] = $(id).value.trim();
    state.noise = $("noise").checked;
    clearTimeout(timer);
    timer = setTimeout(draw, 120);
  };
  $("filters").addEventListener("input", changed);
  $("filters").addEventListener("submit", (e) => e.preventDefault());
  const view = (split) => {
    state.split = split;
    $("split").setAttribute("aria-pressed", String(split));
    $("unified").setAttribute("aria-pressed", String(!split));
    draw();
  };
  $("split").addEventListener("click", () => view(true));
  $("unified").addEventListener("click", () => view(false));

  const step = (by) => {
    const all = list.querySelectorAll(".group");
    if (!all.length) return;
    if (current >= 0 && all[current]) all[current].classList.remove("current");
    current = Math.max(0, Math.min(all.length - 1, current + by));
    all[current].classList.add("current");
    all[current].open = true;
    if (all[current].scrollIntoView) all[current].scrollIntoView({block: "center"});
    all[current].firstChild.focus();
  };
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { $("filters").reset(); changed(); document.activeElement.blur(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    if (e.key === "/") { e.preventDefault(); $("search").focus(); }
    if (e.key === "j") step(1);
    if (e.key === "k") step(-1);
    if (e.key === "s") view(!state.split);
  });

  const jump = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const at = groups.findIndex((g) => g.id === id);
    if (at < 0) return;
    if (!found.includes(at)) { $("filters").reset(); state.search = state.cluster = state.application = state.kind = state.risk = ""; state.noise = $("noise").checked = true; draw(); }
    while (drawn <= found.indexOf(at)) drawMore();
    const target = document.getElementById("g-" + id);
    if (target) { target.open = true; if (target.scrollIntoView) target.scrollIntoView(); }
  };
  window.addEventListener("hashchange", jump);

  problems(); apps(); findings(); draw();
  $("app").hidden = false;
  jump();
})();
