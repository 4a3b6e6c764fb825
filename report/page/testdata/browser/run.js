"use strict";
// Opens pages in Chromium, uses them as a reader does, and prints what it found as JSON.
// node run.js FOLDER: FOLDER has fleet.html, hostile.html, many.html and deep.html, and gets the screenshots.
const {launch} = require(process.env.BROWSER_TOOLS);
const {broken, opener, small} = require(process.env.BROWSER_PAGES);
const {slow, tour} = require("./keys.js");
const path = require("path");
const [folder] = process.argv.slice(2);
const file = (name, rest) => "file://" + path.join(folder, name) + (rest || "");
const out = {errors: [], requests: [], axe: [], facts: {}, times: {}, counts: {}};
const {open, check} = opener(out, {width: 1400, height: 1000});
const shot = (page, name) => page.screenshot({path: path.join(folder, name + ".png")});
const text = (page, selector) => page.locator(selector).first().innerText();

const looks = async (browser) => {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1440, 900, 390]) {
      const {context, page} = await open(browser, file("fleet.html"), {colorScheme, viewport: {width, height: 1000}});
      await page.waitForSelector(".rows");
      await shot(page, `fleet-${colorScheme}-${width}`);
      out.facts[`overflow-${width}`] = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      for (const word of await page.evaluate(broken)) out.errors.push("at " + width + " the head of a table breaks the word " + word);
      for (const text of await page.evaluate(small)) out.errors.push("at " + width + " a text is too small: " + text);
      if (width !== 900) await check(page, `${colorScheme} ${width}`);
      if (width === 1440) {
        await page.evaluate(() => document.querySelector("#a2, section.app:last-of-type").scrollIntoView());
        await page.waitForTimeout(200);
        await shot(page, `fleet-${colorScheme}-web`);
        await page.keyboard.press("s");
        await page.waitForSelector(".two");
        await shot(page, `fleet-${colorScheme}-split`);
        await check(page, `${colorScheme} split`);
        await page.keyboard.press("?");
        await shot(page, `fleet-${colorScheme}-keys`);
        await check(page, `${colorScheme} keys`);
      }
      await context.close();
    }
  }
};

const use = async (browser) => {
  const f = out.facts;
  let {context, page} = await open(browser, file("fleet.html"));
  await page.waitForSelector(".rows");
  f.firstSection = await text(page, "main h2");
  f.numbers = await page.evaluate(() => [...document.querySelectorAll(".rows .num")].filter((n) => n.dataset.n).length);
  f.marks = await page.evaluate(() => [...document.querySelectorAll("#list mark")].map((m) => m.textContent).slice(0, 12));
  await page.keyboard.press("j");
  f.j = await text(page, ".obj.current .title");
  await page.keyboard.press("j");
  f.jj = await text(page, ".obj.current .title");
  await page.keyboard.press("k");
  f.k = await text(page, ".obj.current .title");
  await page.keyboard.press("n");
  f.n = await text(page, ".obj.current .title");
  await page.keyboard.press("o");
  f.closed = await page.evaluate(() => document.querySelector(".obj.current .body").hidden);
  await page.keyboard.press("]");
  f.caution = await text(page, ".obj.current .title");
  const before = await page.locator(".obj.current .rows .num").count();
  await page.keyboard.press("e");
  f.expanded = await page.locator(".obj.current .rows .num").count() > before;
  await page.keyboard.press("x");
  await page.waitForFunction(() => document.getElementById("said").textContent !== "");
  f.copied = await text(page, "#said");
  await page.keyboard.press("c");
  await page.waitForFunction(() => document.getElementById("said").textContent === "Path copied");
  await page.keyboard.press("/");
  await page.keyboard.type("checkout");
  // "check" finds the same object: the address tells that the last letter has arrived.
  await page.waitForFunction(() => /^1 object/.test(document.getElementById("count").textContent) && location.search === "?q=checkout");
  f.search = await text(page, "#count");
  f.address = await page.evaluate(() => location.search);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !location.search);
  await page.keyboard.press("?");
  f.sheet = await page.evaluate(() => document.getElementById("keys").open);
  await page.keyboard.press("Escape");
  await page.keyboard.press("d");
  f.theme = await page.evaluate(() => document.documentElement.dataset.theme);
  await context.close();

  ({context, page} = await open(browser, file("fleet.html", "?q=replicas&risk=medium&view=split")));
  await page.waitForFunction(() => /^1 object/.test(document.getElementById("count").textContent));
  f.restored = await page.evaluate(() => [document.getElementById("search").value, document.getElementById("active").textContent, document.getElementById("split").getAttribute("aria-pressed")].join(" "));
  await context.close();

  ({context, page} = await open(browser, file("fleet.html"), {javaScriptEnabled: false}));
  await shot(page, "fleet-noscript");
  f.noscript = await text(page, "#list .obj .lines");
  f.noscriptTools = await page.locator("#search").isVisible();
  await context.close();

  ({context, page} = await open(browser, file("hostile.html")));
  f.hostile = await page.evaluate(() => window.pwned === undefined && document.querySelectorAll("img, iframe, object").length === 0);
  await context.close();

  ({context, page} = await open(browser, file("many.html", "#o9000-0")));
  await page.waitForSelector(".obj.current");
  f.jump = await text(page, ".obj.current .title");
  for (const key of [..."pppppppppp", ..."nn"]) await page.keyboard.press(key); // further up than the window went
  f.window = await text(page, ".obj.current .title");
  await page.keyboard.press("/");
  await page.keyboard.type("eu-1");
  await page.waitForFunction(() => / in /.test(document.getElementById("count").textContent));
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !/ in /.test(document.getElementById("count").textContent));
  f.afterEscape = await page.evaluate(() => { const e = document.querySelector(".obj.current"), top = e ? e.getBoundingClientRect().top : -1; return top >= 0 && top < 300 ? e.querySelector(".title").textContent : "at " + top; });
  f.order = await page.evaluate(() => { const list = [...document.querySelectorAll("section.group")], n = (g) => Number(g.id.slice(1)); return list.length > 10 && list.every((g, i) => i === 0 || g.parentElement !== list[i - 1].parentElement || n(g) > n(list[i - 1])) ? "ascending in each app" : list.map(n).join(" "); });
  await page.emulateMedia({media: "print"});
  await context.close();

  // A link to an object in the middle of a large group draws what is around it. Earlier objects come above it, and it stays where it is.
  ({context, page} = await open(browser, file("deep.html", "#o5-700")));
  await page.waitForSelector("#o5-700.current .rows");
  f.far = await text(page, ".obj.current .title");
  f.around = await page.evaluate(() => [document.getElementById("o5-690") !== null, document.getElementById("o5-699") !== null].join(" "));
  await page.waitForFunction(() => document.getElementById("o5-720") !== null); // the window grows down by itself
  await page.keyboard.press("p");
  f.p = await text(page, ".obj.current .title");
  await page.keyboard.press("n");
  f.firstOfFar = await text(page, ".obj.current .title");
  await page.keyboard.press("k");
  f.lastBefore = await text(page, ".obj.current .title");
  f.drawnBefore = await page.locator("#g4 .obj").count();
  await context.close();

  ({context, page} = await open(browser, file("deep.html", "#o0-700")));
  await page.waitForSelector("#o0-703 .rows");
  const button = page.locator("#g0 .more").first();
  await button.evaluate((e) => e.scrollIntoView({block: "center"}));
  await page.waitForFunction(() => new Promise((done) => requestIdleCallback(() => done(true), {timeout: 1000})));
  await button.evaluate((e) => e.focus({preventScroll: true}));
  // place waits until the object has stood still for a while in which the page was idle and drew: what comes near the screen is still laid out.
  const place = async () => {
    const top = () => page.evaluate(() => new Promise((done) => requestIdleCallback(() => requestAnimationFrame(() => done(Math.round(document.getElementById("o0-700").getBoundingClientRect().top))), {timeout: 1000})));
    for (let still = 0, a = await top(), b; still < 6; a = b) {
      await page.waitForTimeout(50);
      b = await top();
      still = a === b ? still + 1 : 0;
    }
    return top();
  };
  const stood = await place();
  await page.keyboard.press("Enter");
  await page.waitForSelector("#o0-680");
  f.stays = Math.abs(await place() - stood) < 40;
  await context.close();

  ({context, page} = await open(browser, file("fleet.html")));
  await page.waitForSelector(".rows");
  await page.emulateMedia({media: "print"});
  f.printed = await page.evaluate(() => {
    const shown = (selector) => [...document.querySelectorAll(selector)].some((e) => e.getClientRects().length > 0);
    dispatchEvent(new Event("beforeprint"));
    return [shown(".side"), shown(".tools"), shown(".acts"), [...document.querySelectorAll(".obj")].every((e) => e.querySelector(".rows") || !e.querySelector(".hunk")), document.documentElement.scrollWidth <= document.documentElement.clientWidth].join(" ");
  });
  await page.pdf({path: path.join(folder, "fleet.pdf")});
  await context.close();
};

// counts presses each key once and counts, until after the next frame, what does not depend on the machine: elements that the script adds,
// elements whose style the browser computes, boxes that it lays out, and blocks of the script that run.
const counts = async (browser, name, size) => {
  const {context, page} = await open(browser, file(name));
  const session = await context.newCDPSession(page);
  await session.send("Profiler.enable");
  await session.send("Profiler.startPreciseCoverage", {callCount: true, detailed: true});
  await page.evaluate(() => {
    new MutationObserver((list) => { for (const m of list) for (const n of m.addedNodes) if (n.nodeType === 1) window.added += 1 + n.querySelectorAll("*").length; }).observe(document, {subtree: true, childList: true});
  });
  // Timers of the page that end while a key is measured wait until it has been: on a busy machine, the frame of a key takes longer than they do.
  await page.evaluate(() => {
    window.timeout = setTimeout.bind(window);
    const held = [];
    window.setTimeout = (f, ms) => window.timeout(() => { if (window.hold) held.push(f); else f(); }, ms);
    window.release = () => { window.hold = false; while (held.length) held.shift()(); };
  });
  await browser.startTracing(page, {categories: ["devtools.timeline", "blink.user_timing"]});
  // ran returns how often blocks of the script ran since the last call.
  const ran = async () => (await session.send("Profiler.takePreciseCoverage")).result.filter((s) => s.url.startsWith("file:")).flatMap((s) => s.functions).flatMap((f) => f.ranges).reduce((n, r) => n + r.count, 0);
  const spans = []; // of the keys, in order
  const got = await tour(page, size, {
    begin: async () => {
      await page.evaluate(() => { window.hold = true; });
      await ran();
    },
    end: async (key, added) => {
      spans.push({added, script: await ran(), styled: 0, laid: 0});
      await page.evaluate(() => window.release());
      return spans.at(-1);
    },
    again: () => false,
  });
  let n = -1, now = null, thread;
  for (const e of JSON.parse(await browser.stopTracing()).traceEvents.sort((a, b) => a.ts - b.ts)) {
    if (e.cat === "blink.user_timing" && /^key (begins|ends)$/.test(e.name)) {
      if (e.name === "key begins") n++;
      [now, thread] = [e.name === "key begins" ? spans[n] : null, e.tid];
    } else if (now && e.tid === thread && e.name === "UpdateLayoutTree") now.styled += e.args.elementCount || 0;
    else if (now && e.tid === thread && e.name === "Layout") now.laid += e.args.beginData?.dirtyObjects || 0;
  }
  if (n + 1 !== spans.length) out.errors.push(name + ": " + (n + 1) + " keys in the trace, " + spans.length + " pressed");
  await context.close();
  return got;
};

(async () => {
  const browser = await launch();
  try {
    await looks(browser);
    await use(browser);
    for (const name of ["many.html", "deep.html"]) out.times[name] = await slow(browser, file(name));
    for (const [name, size] of [["fleet.html", 1], ["many.html", 1], ["deep.html", 1000]]) out.counts[name] = await counts(browser, name, size);
  } catch (e) {
    out.errors.push(String(e.stack || e));
  }
  await browser.close();
  console.log(JSON.stringify(out, null, 1));
})();
