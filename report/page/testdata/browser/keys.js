"use strict";
// Presses keys in reports and measures them. node keys.js FOLDER TRIES prints times as JSON: FOLDER has fleet.html, many.html and deep.html.
const {launch} = require(process.env.BROWSER_TOOLS);
const path = require("path");

// frame prepares a promise in the page that ends after the frame that shows the first effect of the next key, with its milliseconds and the
// number of elements that were added.
const frame = (page) => page.evaluate(() => {
  window.ended = new Promise((done) => addEventListener("keydown", () => {
    const began = performance.mark("key begins").startTime;
    window.added = 0;
    requestAnimationFrame(() => (window.timeout || setTimeout)(() => done({ms: performance.mark("key ends").startTime - began, added: window.added})));
  }, {once: true, capture: true}));
});

// slow opens a page with a processor that is four times slower, and returns milliseconds until the first paint and until the frame of each key.
exports.slow = async (browser, address) => {
  const context = await browser.newContext({viewport: {width: 1400, height: 1000}});
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Emulation.setCPUThrottlingRate", {rate: 4});
  await page.goto(address, {waitUntil: "load", timeout: 300000});
  await page.waitForSelector(".rows", {timeout: 300000});
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  await page.waitForTimeout(1500);
  const press = async (key) => {
    await frame(page);
    await page.keyboard.press(key);
    return Math.round((await page.evaluate(() => window.ended)).ms);
  };
  const t = {paint: Math.round(paint), j: await press("j"), jAgain: await press("j"), n: await press("n"), split: await press("s")};
  await page.keyboard.press("/");
  t.type = await press("9");
  const began = Date.now();
  await page.keyboard.type("991");
  await page.waitForFunction(() => /^[1-9][0-9]* objects? in/.test(document.getElementById("count").textContent), null, {timeout: 300000});
  t.found = Date.now() - began;
  await page.waitForTimeout(500);
  t.typeAgain = await press("0");
  t.escape = await press("Escape");
  await context.close();
  return t;
};

const typed = async (page, text) => {
  await page.keyboard.press("/");
  await page.keyboard.type(text);
  await page.waitForFunction(() => / in /.test(document.getElementById("count").textContent), null, {timeout: 300000});
};
const cleared = (page) => page.waitForFunction(() => !/ in /.test(document.getElementById("count").textContent), null, {timeout: 300000});

// Each key of the sheet, from where it costs most: j, k and ] lead into groups that were never drawn, and the search has found objects when
// Escape ends it. to goes to the first or last object of a group that no try has used before. before prepares, after restores.
const keys = [
  {name: "j", key: "j"},
  {name: "k", key: "k", before: async (page) => { for (const key of ["j", "j"]) await page.keyboard.press(key); }},
  {name: "n", key: "n"},
  {name: "p", key: "p", before: async (page) => { for (const key of ["n", "n"]) await page.keyboard.press(key); }},
  {name: "j into the next group", key: "j", to: "last"},
  {name: "k into the group before", key: "k", to: "first"},
  {name: "]", key: "]"},
  {name: "[", key: "["},
  {name: "o", key: "o", after: (page) => page.keyboard.press("o")},
  {name: "e", key: "e", to: "first"},
  {name: "c", key: "c"},
  {name: "x", key: "x"},
  {name: "s", key: "s"},
  {name: "d", key: "d"},
  {name: "?", key: "?", after: (page) => page.keyboard.press("Escape")},
  {name: "t", key: "t"},
  {name: "f", key: "f", after: (page) => page.evaluate(() => { document.activeElement.blur(); document.getElementById("filters").open = false; })},
  {name: "/", key: "/", after: (page) => page.evaluate(() => document.activeElement.blur())},
  {name: "a letter of the search", key: "e", before: (page) => page.keyboard.press("/"), after: async (page) => { await page.keyboard.press("Escape"); await cleared(page); }},
  {name: "Escape", key: "Escape", before: (page) => typed(page, "e"), after: cleared},
  {name: "j after Escape", key: "j", before: async (page) => { await typed(page, "e"); await page.keyboard.press("Escape"); await cleared(page); }},
];

// clock returns a function that tells the processor time of the page so far, in milliseconds.
const clock = async (page) => {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", {timeDomain: "threadTicks"});
  return async () => (await session.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value * 1000;
};

// tour presses each key of the sheet in a report whose groups have size objects each. It calls meter.begin before the key and meter.end after
// the frame of the key, with its name and the elements that it added, and tries a key again while meter.again says so. It returns the last
// result of meter.end by name.
exports.tour = async (page, size, meter) => {
  const spent = await clock(page);
  await page.waitForSelector(".rows", {timeout: 300000});
  await page.waitForFunction(() => new Promise((done) => requestIdleCallback(() => done(true), {timeout: 1000})), null, {timeout: 300000});
  // A page finishes what is near the screen after the frame of a key. That is not work of the next key. A page that spends no time may
  // wait for a processor: it is quiet only if it also had an idle moment and drew a frame. A page without frames may have no idle moment, so
  // each wait for one has a limit.
  const idle = () => page.evaluate(() => new Promise((done) => requestIdleCallback(() => requestAnimationFrame(() => (window.timeout || setTimeout)(done)), {timeout: 1000})));
  const quiet = async () => {
    for (let calm = 0, a = await spent(), b; calm < 4; a = b) {
      await page.waitForTimeout(40);
      await idle();
      b = await spent();
      calm = b - a < 2 ? calm + 1 : 0;
    }
  };
  const groups = await page.locator("section.group").count();
  let group = 2;
  const got = {};
  for (const one of keys) {
    do {
      if (one.to) {
        const n = groups < 10 ? 1 : group;
        group = group + 2 < 10 ? group + 2 : 3;
        const id = "o" + n + "-" + (one.to === "first" ? 0 : size - 1);
        await page.evaluate((id) => { history.replaceState(null, "", location.pathname); location.hash = "#" + id; }, id);
        await page.waitForFunction((id) => document.querySelector(".obj.current")?.id === id, id, {timeout: 300000});
      }
      if (one.before) await one.before(page);
      await quiet();
      await frame(page);
      await meter.begin(one.name);
      await page.keyboard.press(one.key);
      const {added} = await page.evaluate(() => window.ended);
      got[one.name] = await meter.end(one.name, added);
      if (one.after) await one.after(page);
    } while (meter.again(one.name));
  }
  return got;
};

// effort returns the processor time, in milliseconds, that the page spends on each key. Other work of the machine does not count, but makes
// the caches of the processor cold, and the collector of garbage and the compiler run in between: a key above GOAL is tried again, and the
// least time counts.
const GOAL = 25;
const effort = async (browser, address, size, tries) => {
  const context = await browser.newContext({viewport: {width: 1400, height: 1000}});
  const page = await context.newPage();
  await page.goto(address, {waitUntil: "load", timeout: 300000});
  const spent = await clock(page), least = {}, tried = {};
  let before;
  const got = await exports.tour(page, size, {
    begin: async () => { before = await spent(); },
    end: async (key) => {
      tried[key] = (tried[key] || 0) + 1;
      return least[key] = Math.min(least[key] ?? Infinity, Math.round((await spent() - before) * 10) / 10);
    },
    again: (key) => least[key] > GOAL && tried[key] < tries,
  });
  await context.close();
  return got;
};

if (require.main === module) {
  (async () => {
    const [folder, tries] = process.argv.slice(2), out = {slow: {}, effort: {}};
    const browser = await launch(), address = (name) => "file://" + path.join(folder, name + ".html");
    for (const name of ["many", "deep"]) {
      for (let i = 0; i < Number(tries); i++) {
        for (const [what, ms] of Object.entries(await exports.slow(browser, address(name)))) (out.slow[name] ||= {})[what] = Math.min(ms, out.slow[name][what] ?? Infinity);
      }
    }
    for (const [name, size] of [["fleet", 1], ["many", 1], ["deep", 1000]]) out.effort[name] = await effort(browser, address(name), size, Number(tries));
    await browser.close();
    console.log(JSON.stringify(out));
  })().catch((e) => { console.error(e.stack || e); process.exit(1); });
}
