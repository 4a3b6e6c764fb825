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

// A group draws a window of its matching entries. The window grows when the reader comes near its end, and moves when a key or a link leads far
// away from it, so that no key draws a thousand objects.
class Group {
  constructor(section) {
    this.section = section;
    this.id = section.id;
    this.app = section.parentElement;
    this.risk = section.dataset.risk;
    this.environments = section.dataset.envs.split(" ");
    this.box = section.querySelector(".objects");
    this.first = this.end = 0; // of the window, in shown
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
  get drawn() { return this.end > this.first; }
  // draw adds the entries [from, to) to the window. What is drawn stays if they adjoin it.
  draw(from = 0, to = BATCH) {
    this.entries;
    from = Math.max(0, from);
    to = Math.min(to, this.shown.length);
    const elements = (list) => list.map((e) => e.element);
    let added;
    if (!this.drawn || from > this.end || to < this.first) {
      added = elements(this.shown.slice(from, to));
      this.box.replaceChildren(...added, ...this.rest);
      this.first = from;
      this.end = Math.max(from, to);
    } else {
      const above = elements(this.shown.slice(from, this.first)), below = elements(this.shown.slice(this.end, to));
      this.shown[this.first].element.before(...above);
      this.shown[this.end - 1].element.after(...below);
      added = above.concat(below);
      this.first = Math.min(from, this.first);
      this.end = Math.max(to, this.end);
    }
    this.buttons();
    this.box.classList.toggle("long", this.end - this.first > 4);
    for (const e of added) watch.observe(e);
  }
  // buttons stand where the window leaves objects out.
  buttons() {
    const earlier = this.first, later = this.shown.length - this.end;
    if (earlier > 0) {
      this.above ||= button("", "more", () => this.growUp());
      this.above.textContent = "Show " + plural(Math.min(earlier, BATCH), "earlier object") + " of " + plural(this.shown.length, "object");
      if (this.box.firstChild !== this.above) this.box.prepend(this.above);
    } else this.above?.remove();
    if (later > 0) {
      this.below ||= button("", "more", () => this.draw(this.first, this.end + BATCH));
      this.below.textContent = "Show more of " + plural(this.shown.length, "object");
      const last = this.shown[this.end - 1].element;
      if (last.nextSibling !== this.below) last.after(this.below);
      watch.unobserve(this.below); // it may still be near the screen
      watch.observe(this.below);
    } else this.below?.remove();
  }
  // growUp draws earlier objects, and leaves the others where they are on the screen. It finishes those that come near the screen: later,
  // each would move what the reader sees.
  growUp() {
    const e = this.shown[this.first].element, top = e.getBoundingClientRect().top, end = this.first;
    this.draw(this.first - BATCH, this.end);
    const least = e.getBoundingClientRect().top - top - NEAR;
    const above = this.shown.slice(this.first, end).map((entry) => entry.element).filter((o) => o.getBoundingClientRect().bottom > least);
    for (const o of above) { watch.unobserve(o); rows(o); }
    scrollBy(0, e.getBoundingClientRect().top - top);
  }
  // forget empties the group until the reader comes near it again.
  forget() {
    this.first = this.end = 0;
    this.box.replaceChildren(...this.rest);
    arrive.unobserve(this.section);
    arrive.observe(this.section);
  }
  // reveal draws an entry, and those around it that the screen shows with it.
  reveal(entry) {
    const n = this.shown.indexOf(entry);
    if (n < 0 || this.drawn && n >= this.first && n < this.end) return;
    const far = !this.drawn ? n >= BATCH : n >= this.end + BATCH || n < this.first - BATCH;
    if (far) this.draw(n - FIRST, n + FIRST);
    else if (!this.drawn) this.draw(0, n + FIRST);
    else this.draw(Math.min(n - FIRST, this.first), Math.max(n + FIRST, this.end));
  }
}

const groups = [...document.querySelectorAll("section.group")].map((s) => new Group(s));
const groupOf = new Map(groups.map((g) => [g.id, g]));
const NEAR = 900; // pixels around the screen
const near = {rootMargin: NEAR + "px 0px"};
// soon does work in slices of time, so that a key's frame comes first.
const waiting = [];
const drain = () => {
  for (const began = performance.now(); waiting.length && performance.now() - began < 8;) waiting.shift()();
  if (waiting.length) setTimeout(drain);
};
const soon = (work) => { if (waiting.push(work) === 1) setTimeout(drain); };
// watch finishes what comes near the screen: hunks become rows, windows grow. One that ends above the screen does not: it would draw all of
// its objects where nobody looks.
const watch = new IntersectionObserver((seen) => {
  for (const s of seen) {
    if (!s.isIntersecting) continue;
    const more = s.target.classList.contains("more");
    if (more && s.boundingClientRect.top < 0) continue;
    if (!more) watch.unobserve(s.target);
    soon(() => { if (more) s.target.click(); else rows(s.target); });
  }
}, near);
const arrive = new IntersectionObserver((seen) => {
  for (const s of seen) {
    if (!s.isIntersecting) continue;
    arrive.unobserve(s.target);
    const g = groupOf.get(s.target.id);
    if (g) soon(() => { if (!g.drawn) g.draw(); });
  }
}, near);
