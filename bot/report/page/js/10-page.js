// Every value of the page comes from its own markup, which the server has escaped. The script makes elements and text
// nodes; it parses markup only where that is the page's own: the text of a noscript element.
const el = (tag, name, text) => {
  const e = document.createElement(tag);
  if (name) e.className = name;
  if (text !== undefined) e.textContent = text;
  return e;
};
const plural = (n, word) => n.toLocaleString("en-US") + " " + word + (n === 1 ? "" : "s");
// decode reads the few entities that html/template writes.
const entities = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&#34;": '"', "&#39;": "'", "&#43;": "+"};
const plainText = (markup) => markup.replace(/<[^>]*>/g, " ").replace(/&(?:lt|gt|amp|#34|#39|#43);/g, (e) => entities[e]);

// opening reads the attributes of an object, in the order of the template.
const opening = /^<article class="obj" id="([^"]*)" data-kind="([^"]*)" data-risk="([^"]*)"/;
// An entry is one object: an element, or the markup of one that waits for its first use.
class Entry {
  constructor(group, element, markup) {
    this.group = group;
    this.node = element;
    this.markup = markup;
    const [id, kind, risk] = element ? ["id", "data-kind", "data-risk"].map((name) => element.getAttribute(name)) : (opening.exec(markup) || ["", "", "", ""]).slice(1).map(plainText);
    this.id = id;
    this.kind = kind;
    this.risk = risk;
  }
  get text() {
    if (this.lower === undefined) this.lower = (this.node && !this.markup ? this.node.textContent : plainText(this.markup)).toLowerCase();
    return this.lower;
  }
  get element() {
    if (!this.node) {
      this.node = document.createRange().createContextualFragment(this.markup).firstElementChild;
    }
    if (!this.prepared) {
      this.prepared = true;
      prepare(this);
    }
    return this.node;
  }
}

const BATCH = 24, FIRST = 4; // FIRST for a key: the rest follows after the frame

// A group draws a window of its matching entries, and grows it when the reader comes near its end.
class Group {
  constructor(section) {
    this.section = section;
    this.id = section.id;
    this.app = section.parentElement;
    this.risk = section.dataset.risk;
    this.environments = section.dataset.envs.split(" ");
    this.box = section.querySelector(".objects");
    this.drawn = 0;
  }
  // entries splits the group's markup into objects when they are first needed.
  get entries() {
    if (this.list) return this.list;
    const waiting = this.box.querySelector("noscript");
    if (waiting) {
      const parts = waiting.textContent.split(/(?=<article class="obj")/);
      this.tail = "";
      const last = parts[parts.length - 1] || "";
      const end = last.lastIndexOf("</article>");
      if (end >= 0 && end + 10 < last.length) {
        this.tail = last.slice(end + 10);
        parts[parts.length - 1] = last.slice(0, end + 10);
      } else if (end < 0) {
        this.tail = last;
        parts.pop();
      }
      this.list = parts.filter((p) => p.startsWith("<article")).map((p) => new Entry(this, null, p));
      if (this.tail) waiting.before(document.createRange().createContextualFragment(this.tail));
      waiting.remove();
    } else {
      this.list = [...this.box.querySelectorAll(":scope > article")].map((e) => new Entry(this, e, ""));
    }
    this.rest = [...this.box.children].filter((e) => e.tagName !== "ARTICLE");
    this.shown = this.list;
    return this.list;
  }
  get clusters() {
    if (this.names === undefined) {
      const list = this.section.querySelector(".clusters p");
      this.names = (list ? list.textContent : this.section.querySelector(".where").textContent).toLowerCase();
    }
    return this.names;
  }
  draw(least) {
    this.entries;
    const until = Math.min(Math.max(least || BATCH, this.drawn), this.shown.length);
    const added = this.shown.slice(this.drawn, until).map((e) => e.element), more = until < this.shown.length;
    if (more) {
      this.button ||= this.growButton();
      this.button.textContent = "Show more of " + plural(this.shown.length, "object");
    }
    // What is drawn stays: forget precedes another list of objects.
    if (!this.drawn) this.box.replaceChildren(...added, ...(more ? [this.button] : []), ...this.rest);
    else if (this.button?.parentElement === this.box) { this.button.before(...added); if (!more) this.button.remove(); }
    this.box.classList.toggle("long", until > 4);
    this.drawn = until;
    for (const e of added) watch.observe(e);
    if (more) { watch.unobserve(this.button); watch.observe(this.button); } // it may still be near the screen
  }
  // forget empties the group until the reader comes near it again.
  forget() {
    this.drawn = 0;
    this.box.replaceChildren(...this.rest);
    arrive.unobserve(this.section);
    arrive.observe(this.section);
  }
  growButton() {
    const b = el("button", "more");
    b.type = "button";
    b.addEventListener("click", () => this.draw(this.drawn + BATCH));
    return b;
  }
  reveal(entry) {
    const n = this.shown.indexOf(entry) + 1;
    if (n > this.drawn) this.draw(n + FIRST);
  }
}

const groups = [...document.querySelectorAll("section.group")].map((s) => new Group(s));
const groupOf = new Map(groups.map((g) => [g.id, g]));
const near = {rootMargin: "900px 0px"};
// soon does work in slices of time, so that a key's frame comes first.
const waiting = [];
const drain = () => {
  for (const began = performance.now(); waiting.length && performance.now() - began < 8;) waiting.shift()();
  if (waiting.length) setTimeout(drain);
};
const soon = (work) => { if (waiting.push(work) === 1) setTimeout(drain); };
// watch finishes what comes near the screen: hunks become rows, windows grow.
const watch = new IntersectionObserver((seen) => {
  for (const s of seen) {
    if (!s.isIntersecting) continue;
    const more = s.target.classList.contains("more");
    if (!more) watch.unobserve(s.target);
    soon(() => { if (more) s.target.click(); else rows(s.target); });
  }
}, near);
const arrive = new IntersectionObserver((seen) => {
  for (const s of seen) {
    if (!s.isIntersecting) continue;
    arrive.unobserve(s.target);
    const g = groupOf.get(s.target.id);
    if (g && !g.drawn) g.draw();
  }
}, near);
