"use strict";
// Opens a page in Chromium five times and prints the times to its first paint as JSON: node paint.js FILE.
const {launch} = require(process.env.BROWSER_TOOLS);
const [file] = process.argv.slice(2);

(async () => {
  const browser = await launch(), paint = [];
  for (let i = 0; i < 5; i++) {
    const context = await browser.newContext({viewport: {width: 1440, height: 900}});
    const page = await context.newPage();
    await page.goto("file://" + file, {waitUntil: "load", timeout: 300000});
    paint.push(await page.evaluate(() => new Promise((done) => {
      new PerformanceObserver((list) => { for (const e of list.getEntriesByName("first-contentful-paint")) done(Math.round(e.startTime)); }).observe({type: "paint", buffered: true});
    })));
    await context.close();
  }
  await browser.close();
  console.log(JSON.stringify({paint}));
})();
