"use strict";
// Opens the pages of a fleet in Chromium, uses them as a reader does, and prints what it found as JSON.
// node run.js FOLDER SCREENSHOTS OLDER NEWER: FOLDER has the folders demo, hostile and states with pages. In states, the environment dev has
// had four states, among them these two.
const {launch} = require(process.env.BROWSER_TOOLS);
const {broken, opener, small} = require(process.env.BROWSER_PAGES);
const fs = require("fs");
const path = require("path");
const [folder, shots, older, newer] = process.argv.slice(2);
const address = (site, name) => "file://" + path.join(folder, site, name);
const out = {errors: [], requests: [], axe: [], wide: [], facts: {}, pages: 0};
const {open, check} = opener(out, {width: 1440, height: 900});
const pagesOf = (site) => fs.readdirSync(path.join(folder, site), {recursive: true}).filter((n) => n.endsWith(".html") && !n.startsWith("changes/")).sort();

const looks = async (browser) => {
  const pages = pagesOf("demo").filter((p) => !p.includes("/") || /^(apps\/shop|clusters\/prod-eu-1|merge-requests\/4|labels\/region\/eu-west-1|versions\/x-image-.*web-2\.1)/.test(p));
  out.pages = pages.length;
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1440, 900, 390]) {
      for (const name of pages) {
        const {context, page} = await open(browser, address("demo", name), {colorScheme, viewport: {width, height: 900}});
        const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        if (over > 0) out.wide.push(name + " at " + width + " by " + over);
        for (const word of await page.evaluate(broken)) out.wide.push(name + " at " + width + " breaks the word " + word);
        for (const text of await page.evaluate(small)) out.wide.push(name + " at " + width + " has a text that is too small: " + text);
        await page.evaluate(() => { for (const d of document.querySelectorAll("details")) { d.removeAttribute("name"); d.open = true; } });
        if (width !== 900) await check(page, [name, colorScheme, width].join(" "));
        await page.screenshot({path: path.join(shots, [name.replace(/[/.]/g, "-"), colorScheme, width].join("-") + ".png"), fullPage: true});
        await context.close();
      }
    }
  }
};

const use = async (browser) => {
  const f = out.facts;
  let {context, page} = await open(browser, address("demo", "index.html"), {timezoneId: "Asia/Tokyo", locale: "en-GB"});
  f.time = await page.evaluate(() => document.querySelector("footer time").textContent);
  await page.keyboard.press("/");
  await page.keyboard.type("shop");
  await page.waitForFunction(() => document.getElementById("count").textContent === "1 of 4" && location.search === "?q=shop"); // "sho" finds it too
  f.query = await page.evaluate(() => location.search);
  f.rows = await page.evaluate(() => [...document.querySelectorAll("#matrix tbody tr:not([hidden]) th")].map((e) => e.textContent).join(" "));
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.getElementById("count").textContent === "");
  await page.keyboard.press("d");
  f.theme = await page.evaluate(() => document.documentElement.dataset.theme);
  await page.keyboard.press("?");
  f.sheet = await page.evaluate(() => document.getElementById("keys").open);
  await page.keyboard.press("Escape");
  for (let i = 0; i < 4; i++) await page.keyboard.press("j");
  f.fourth = await page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("Enter");
  await page.waitForURL(/apps\/baseline/);
  f.opened = await page.evaluate(() => document.querySelector("h1").textContent);
  // The page forgets a g after 1.2 s, which is less than a busy machine takes for two keys.
  await page.evaluate(() => { const later = window.setTimeout.bind(window); window.setTimeout = (f, ms) => later(f, ms === 1200 ? 300000 : ms); });
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await page.waitForURL(/promotions/);
  f.went = await page.evaluate(() => document.querySelector("h1").textContent);
  f.kept = await page.evaluate(() => document.documentElement.dataset.theme);
  f.stamps = await page.evaluate(() => (document.querySelector("main").textContent.match(/\d{4}-\d\d-\d\d \d\d:\d\d UTC/g) || []).join());
  f.freeze = await page.locator("#env-prod time").evaluateAll((list) => list.map((e) => e.textContent).join("; "));
  const summary = page.locator("#env-prod .acts summary");
  await summary.focus();
  if (await page.locator("#env-prod .acts").getAttribute("open") === null) await page.keyboard.press("Enter"); // open if the environment waits for somebody
  await page.keyboard.press("Tab"); // the code scrolls, or the button follows
  await page.locator("#env-prod .copy").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /^Command (copied|selected)$/.test(document.getElementById("said").textContent));
  f.copied = true;
  // Every element that can be reached by Tab shows where it is.
  await page.reload();
  const seen = new Set();
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => { const e = document.activeElement, s = getComputedStyle(e); return [e.outerHTML.slice(0, 120), s.outlineStyle, e === document.body].join("\u0000"); });
    const [what, outline, body] = at.split("\u0000");
    if (body === "true") break;
    seen.add(what);
    if (outline === "none") out.errors.push("no outline on " + what);
  }
  f.tabs = seen.size;
  await context.close();

  ({context, page} = await open(browser, address("demo", "search.html") + "?q=collector"));
  f.restored = await page.evaluate(() => document.getElementById("count").textContent !== "" && [...document.querySelectorAll("#all tbody tr:not([hidden])")].every((r) => r.textContent.includes("collector")));
  await context.close();

  ({context, page} = await open(browser, address("demo", "apps/shop.html"), {javaScriptEnabled: false}));
  f.noscript = await page.locator("main").innerText();
  f.noscriptTools = await page.locator("#filter").isVisible();
  await context.close();

  ({context, page} = await open(browser, address("demo", "clusters.html") + "?label=region%3Deu-west-1"));
  const listed = () => page.evaluate(() => [...document.querySelectorAll("#list tbody tr:not([hidden]) th")].map((e) => e.textContent).join(" "));
  f.labelled = await listed();
  await page.locator("#label").selectOption("class=edge");
  f.relabelled = await listed();
  f.labelQuery = await page.evaluate(() => location.search);
  await page.goto(address("demo", "index.html"));
  await page.locator("#label").selectOption("labels/class/edge.html");
  await page.waitForURL(/labels\/class\/edge/);
  f.chosen = await page.evaluate(() => document.querySelector("h1").textContent);
  await page.locator("#label").selectOption("index.html");
  await page.waitForURL(/index\.html/);
  await page.goto(address("demo", "history.html"));
  await page.locator("#env-dev svg.timeline [data-to]").last().click();
  f.marked = await page.evaluate(() => document.querySelector(":target")?.tagName);
  await context.close();

  f.hostile = 0;
  for (const name of pagesOf("hostile")) {
    ({context, page} = await open(browser, address("hostile", name)));
    if (await page.evaluate(() => window.pwned !== undefined || document.querySelectorAll("img, iframe, object").length > 0)) out.errors.push("hostile " + name);
    f.hostile++;
    await context.close();
  }
};

// compare opens the report between two states with the form, and without a script.
const compare = async (browser) => {
  const f = out.facts, range = async (page) => (await page.locator(".range").innerText()).replace(/to|\s+/g, "");
  let {context, page} = await open(browser, address("states", "history.html"));
  const form = page.locator("#env-dev form.states");
  await form.locator("select").first().selectOption(newer); // in the other order: the report is from the older to the newer state
  await form.locator("select").last().selectOption(newer);
  await form.locator("button").press("Enter");
  f.same = await form.locator("output").innerText();
  await check(page, "states");
  await page.screenshot({path: path.join(shots, "states.png"), fullPage: true});
  await form.locator("select").last().selectOption(older);
  await form.locator("button").press("Enter");
  await page.waitForURL(/changes\/dev\//);
  f.compared = await range(page);
  await check(page, "compared states");
  await page.keyboard.press("?");
  if (!await page.evaluate(() => document.getElementById("keys").open)) out.errors.push("the script of the compared states does not run");
  await page.screenshot({path: path.join(shots, "compared.png"), fullPage: true});
  await context.close();

  ({context, page} = await open(browser, address("states", "history.html"), {javaScriptEnabled: false}));
  const links = page.locator("#env-dev noscript a");
  f.pairs = await links.count();
  await page.screenshot({path: path.join(shots, "states-noscript.png"), fullPage: true});
  await page.locator('#env-dev noscript a[href$="' + older + ".." + newer + '.html"]').click();
  f.linked = await range(page);
  await context.close();
};

(async () => {
  const browser = await launch();
  try {
    await looks(browser);
    await use(browser);
    await compare(browser);
  } catch (e) {
    out.errors.push(String(e.stack || e));
  }
  await browser.close();
  console.log(JSON.stringify(out, null, 1));
})();
