"use strict";
// What the scripts that drive web pages share. opener(out, viewport) returns functions that collect what is wrong in out: errors of
// pages, requests that leave the page, and violations of accessibility rules.
const {axe} = require(process.env.BROWSER_TOOLS);

// broken runs in a page and lists short words in heads of rows and columns that do not stand on one line.
exports.broken = () => {
  const out = [];
  for (const th of document.querySelectorAll("main th")) {
    const walk = document.createTreeWalker(th, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      for (const m of walk.currentNode.data.matchAll(/[A-Za-z0-9]+/g)) {
        const range = document.createRange();
        range.setStart(walk.currentNode, m.index);
        range.setEnd(walk.currentNode, m.index + m[0].length);
        if (m[0].length <= 14 && new Set([...range.getClientRects()].map((r) => r.top)).size > 1) out.push(m[0]);
      }
    }
  }
  return out;
};

// small runs in a page and lists visible texts of less than 12 pixels.
exports.small = () => {
  const out = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.getClientRects().length) continue;
    const size = parseFloat(getComputedStyle(e).fontSize);
    if (size < 12) out.add(e.tagName + "." + e.className + " of " + size + " px: " + walk.currentNode.data.trim().slice(0, 40));
  }
  return [...out];
};

exports.opener = (out, viewport) => ({
  // open opens an address in a context of its own.
  open: async (browser, address, options) => {
    const context = await browser.newContext({viewport, ...options});
    context.setDefaultTimeout(300000); // a busy machine can take minutes for what takes an idle one a second
    const page = await context.newPage();
    page.on("pageerror", (e) => out.errors.push(address + ": " + e.message));
    page.on("console", (m) => { if (m.type() === "error") out.errors.push(address + ": " + m.text()); });
    page.on("request", (r) => { if (!r.url().startsWith("file:") && !r.url().startsWith("data:")) out.requests.push(r.url()); });
    await page.goto(address, {waitUntil: "load", timeout: 300000});
    return {context, page};
  },
  // check runs axe-core through the debugger: the page's own policy stays in force.
  check: async (page, name) => {
    const session = await page.context().newCDPSession(page);
    await session.send("Runtime.evaluate", {expression: axe.source + ";0"});
    const {result} = await session.send("Runtime.evaluate", {awaitPromise: true, returnByValue: true, expression: "axe.run(document, {resultTypes: ['violations'], preload: false}).then((r) => r.violations.map((v) => v.id + ' (' + v.impact + '): ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.any.concat(n.all, n.none)[0] || {message: ''}).message).join(' | ')))"});
    for (const v of result.value || ["axe did not run"]) out.axe.push(name + ": " + v);
  },
});
