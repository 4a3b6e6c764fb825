// Rows with line numbers and word highlights, from the text of a hunk.
let splitView = false;

// words finds the tokens that differ between two lines, by their longest common subsequence.
const tokens = (s) => s.match(/[A-Za-z0-9]+|\s+|[^A-Za-z0-9\s]/g) || [];
const words = (a, b) => {
  const x = tokens(a), y = tokens(b);
  if (x.length * y.length > 40000) return null;
  const table = Array.from({length: x.length + 1}, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) table[i][j] = x[i] === y[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  }
  const meaningful = x.filter((t) => t.trim()).length + y.filter((t) => t.trim()).length;
  let same = 0;
  const left = [], right = [];
  const put = (list, text, changed) => {
    const last = list[list.length - 1];
    if (last && last.changed === changed) last.text += text; else list.push({text, changed});
  };
  for (let i = 0, j = 0; i < x.length || j < y.length;) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      if (x[i].trim()) same += 2;
      put(left, x[i++], false); put(right, y[j++], false);
    } else if (j >= y.length || i < x.length && table[i + 1][j] >= table[i][j + 1]) put(left, x[i++], true);
    else put(right, y[j++], true);
  }
  return same * 3 >= meaningful ? [left, right] : null; // lines with little in common are not two forms of one line
};

// read turns a hunk's text into lines with numbers, and pairs removed with added lines.
const read = (hunk) => {
  const lines = [];
  let old = Number(hunk.dataset.old) || 1, now = Number(hunk.dataset.new) || 1;
  const pre = hunk.querySelector("pre.lines");
  for (const node of pre.childNodes) {
    const kind = node.nodeName === "DEL" ? "del" : node.nodeName === "INS" ? "ins" : "";
    const text = node.textContent;
    if (text === "") continue;
    for (const t of (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n")) {
      lines.push({kind, text: t, old: kind === "ins" ? 0 : old++, now: kind === "del" ? 0 : now++});
    }
  }
  for (let i = 0; i < lines.length; i++) {
    if (lines[i].kind !== "del") continue;
    let dels = i, adds;
    while (dels < lines.length && lines[dels].kind === "del") dels++;
    for (adds = dels; adds < lines.length && lines[adds].kind === "ins";) adds++;
    for (let k = 0; k < Math.min(dels - i, adds - dels); k++) {
      const found = words(lines[i + k].text, lines[dels + k].text);
      if (found) [lines[i + k].parts, lines[dels + k].parts] = found;
    }
    i = Math.max(i, adds - 1);
  }
  return lines;
};

const number = (n, kind) => {
  const e = el("span", "num " + kind);
  if (n) e.dataset.n = n;
  return e;
};
const code = (line) => {
  const e = el("span", "txt " + line.kind);
  if (line.kind) e.dataset.m = line.kind === "del" ? "−" : "+";
  if (line.parts) for (const p of line.parts) e.append(p.changed ? el("mark", "", p.text) : p.text); else e.textContent = line.text;
  if (line.text === "") e.textContent = " ";
  return e;
};
const unified = (lines) => {
  const box = el("div", "rows uni");
  for (const l of lines) box.append(number(l.old, l.kind), number(l.now, l.kind), code(l));
  return box;
};
const split = (lines) => {
  const box = el("div", "rows two"), left = el("div", "half"), right = el("div", "half");
  for (const side of [left, right]) { side.tabIndex = 0; }
  left.setAttribute("role", "group"); left.setAttribute("aria-label", "before");
  right.setAttribute("role", "group"); right.setAttribute("aria-label", "after");
  const blank = () => [el("span", "num blank"), el("span", "txt blank", " ")];
  let dels = [], adds = [];
  const flush = () => {
    for (let i = 0; i < Math.max(dels.length, adds.length); i++) {
      left.append(...(i < dels.length ? [number(dels[i].old, "del"), code(dels[i])] : blank()));
      right.append(...(i < adds.length ? [number(adds[i].now, "ins"), code(adds[i])] : blank()));
    }
    dels = []; adds = [];
  };
  for (const l of lines) {
    if (l.kind === "del") { if (adds.length) flush(); dels.push(l); continue; }
    if (l.kind === "ins") { adds.push(l); continue; }
    flush();
    left.append(number(l.old, ""), code(l));
    right.append(number(l.now, ""), code(l));
  }
  flush();
  box.append(left, right);
  return box;
};

// context gives the lines that a reader has expanded.
const context = (hunk, where, lines) => {
  const pre = hunk.querySelector("pre.ctx." + where);
  if (!pre || !hunk.dataset[where]) return [];
  const texts = pre.textContent.split("\n"), edge = where === "above" ? lines.find((l) => l.old) : lines.findLast((l) => l.old);
  const after = where === "above" ? lines.find((l) => l.now) : lines.findLast((l) => l.now);
  const o = edge ? edge.old : Number(hunk.dataset.old), n = after ? after.now : Number(hunk.dataset.new);
  return texts.map((text, i) => where === "above" ? {kind: "", text, old: o - texts.length + i, now: n - texts.length + i} : {kind: "", text, old: o + 1 + i, now: n + 1 + i});
};
const grow = (hunk, where) => {
  const pre = hunk.querySelector("pre.ctx." + where);
  if (!pre || hunk.dataset[where]) return null;
  const n = pre.textContent.split("\n").length;
  const b = el("button", "grow", plural(n, "more line") + " " + where);
  b.type = "button";
  b.addEventListener("click", () => { expand(hunk, where); });
  return b;
};
const expand = (hunk, where) => {
  hunk.dataset[where] = "1";
  layOut(hunk);
};
const layOut = (hunk) => {
  const pre = hunk.querySelector("pre.lines");
  const lines = hunk.lines ||= read(hunk);
  const all = [...context(hunk, "above", lines), ...lines, ...context(hunk, "below", lines)];
  const whole = all.every((l) => l.kind === "ins") || all.every((l) => l.kind === "del");
  const box = splitView && !whole ? split(all) : unified(all);
  if (!box.classList.contains("two")) { box.tabIndex = 0; box.setAttribute("role", "group"); box.setAttribute("aria-label", "changed lines"); }
  const up = grow(hunk, "above"), down = grow(hunk, "below");
  if (hunk.drawn) for (const e of hunk.drawn) e.remove();
  hunk.drawn = [up, box, down].filter(Boolean);
  pre.hidden = true;
  pre.before(...hunk.drawn);
};
// rows lays out all hunks of an object.
const rows = (object) => { for (const h of object.querySelectorAll(".hunk")) layOut(h); };

const copy = async (text, what) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(what + " copied");
};
const button = (text, name, act) => {
  const b = el("button", name, text);
  b.type = "button";
  b.addEventListener("click", act);
  return b;
};
const fold = (object, open) => {
  const b = object.querySelector(".fold");
  const now = open === undefined ? b.getAttribute("aria-expanded") !== "true" : open;
  b.setAttribute("aria-expanded", String(now));
  object.querySelector(".body").hidden = !now;
};
// prepare adds the buttons of an object.
const prepare = (entry) => {
  const e = entry.node, head = e.querySelector("h4"), title = e.querySelector(".title").textContent;
  const toggle = button("", "fold", () => fold(e));
  toggle.setAttribute("aria-expanded", "true");
  toggle.setAttribute("aria-label", "Show " + title);
  head.prepend(toggle);
  const acts = el("span", "acts");
  const explain = button("copy explain", "", () => copy(e.dataset.explain, "Command"));
  explain.title = e.dataset.explain;
  acts.append(explain);
  head.append(acts);
  for (const at of e.querySelectorAll(".at")) {
    const b = button(at.textContent, "", () => copy(b.textContent, "Path"));
    b.title = "Copy the path";
    at.replaceChildren(b);
  }
};
